package workload

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/docker/go-units"
)

// Type is what a parameter's value must look like.
type Type string

// The types of parameters.
const (
	Integer  Type = "integer"  // 4
	Duration Type = "duration" // 500ms, 2s, 1m
	Size     Type = "size"     // 4KiB, 1MiB; K, KB and KiB all are 1024
	Choice   Type = "choice"   // one of Choices
	Path     Type = "path"     // an absolute path inside the target
	Word     Type = "word"     // printable characters without blanks
	// Directory is a directory of this machine, absolute; "none" for none.
	Directory Type = "directory"
)

// noDirectory is the value of a directory that is none.
const noDirectory = "none"

// longestWord bounds a parameter of the type Word, in bytes.
const longestWord = 64

// Param is one parameter of a workload.
type Param struct {
	Name    string
	Type    Type
	Default string
	Help    string
	// Min and Max bound an integer, a duration in nanoseconds or a size in
	// bytes; both ends are allowed.
	Min, Max int64
	// Step is what a duration or a size must be a multiple of, where the
	// program knows nothing finer; 0 is any.
	Step    int64
	Choices []string
}

// Values are checked parameters: numbers in base units (nanoseconds, bytes).
type Values struct {
	numbers map[string]int64
	texts   map[string]string
}

// Int is an integer parameter. Asking for a parameter that the workload has
// not declared is a programming error and panics.
func (v Values) Int(name string) int64 { return lookup(v.numbers, name) }

// Bytes is a size parameter, in bytes.
func (v Values) Bytes(name string) int64 { return lookup(v.numbers, name) }

// Duration is a duration parameter.
func (v Values) Duration(name string) time.Duration {
	return time.Duration(lookup(v.numbers, name))
}

// Text is a choice or a path.
func (v Values) Text(name string) string { return lookup(v.texts, name) }

func lookup[T any](m map[string]T, name string) T {
	t, ok := m[name]
	if !ok {
		panic("workload: parameter " + name + " is not declared")
	}
	return t
}

// Check reads given against the declared parameters and fills in defaults.
// The error of an unknown parameter names the nearest known one.
func Check(params []Param, given map[string]string) (Values, error) {
	v := Values{numbers: map[string]int64{}, texts: map[string]string{}}
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.Name
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(names, name) {
			return v, fmt.Errorf("unknown parameter %q%s", name, hint(name, names))
		}
	}
	for _, p := range params {
		text, ok := given[p.Name]
		if !ok {
			text = p.Default
		}
		if err := v.set(p, text); err != nil {
			return v, fmt.Errorf("parameter %q: %w", p.Name, err)
		}
	}
	return v, nil
}

func (v Values) set(p Param, text string) (err error) {
	switch p.Type {
	case Integer, Duration, Size:
		v.numbers[p.Name], err = p.number(text)
	default:
		v.texts[p.Name], err = text, p.checkText(text)
	}
	return err
}

// checkText says why a text cannot be the parameter's value.
func (p Param) checkText(text string) error {
	isPath := strings.HasPrefix(text, "/") && !strings.ContainsAny(text, "\x00\n")
	switch p.Type {
	case Choice:
		if !slices.Contains(p.Choices, text) {
			return fmt.Errorf("unknown value %q%s", text, hint(text, p.Choices))
		}
	case Path:
		if !isPath {
			return fmt.Errorf("%q is not an absolute path", text)
		}
	case Directory:
		if text != noDirectory && !isPath {
			return fmt.Errorf("%q is neither an absolute path of a directory nor %q", text, noDirectory)
		}
	case Word:
		if text == "" || len(text) > longestWord || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }) {
			return fmt.Errorf("%q is not a word: use at most %d characters without blanks", text, longestWord)
		}
	default:
		return fmt.Errorf("unknown type %q", p.Type)
	}
	return nil
}

// number reads the parameter's value, in its base unit.
func (p Param) number(text string) (n int64, err error) {
	switch p.Type {
	case Integer:
		if n, err = strconv.ParseInt(text, 10, 64); err != nil {
			return 0, fmt.Errorf("%q is not a whole number", text)
		}
	case Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration such as 500ms or 2s", text)
		}
		n = int64(d)
	case Size:
		if n, err = units.RAMInBytes(text); err != nil {
			return 0, fmt.Errorf("%q is not a size such as 4KiB or 1MiB", text)
		}
	}
	if n < p.Min || n > p.Max {
		return 0, fmt.Errorf("%s is outside %s to %s", text, show(p.Type, p.Min), show(p.Type, p.Max))
	}
	if p.Step > 0 && n%p.Step != 0 {
		return 0, fmt.Errorf("%s is not a multiple of %s", text, show(p.Type, p.Step))
	}
	return n, nil
}

func show(t Type, n int64) string {
	switch t {
	case Duration:
		return time.Duration(n).String()
	case Size:
		return units.BytesSize(float64(n))
	default:
		return strconv.FormatInt(n, 10)
	}
}

// threads is the parameter that most programs share.
func threads() Param {
	return Param{Name: "threads", Type: Integer, Default: "1", Help: "threads that work at once", Min: 1, Max: 4096}
}

// wholeSeconds is the run time of a program that knows only whole seconds.
func wholeSeconds() Param {
	return Param{Name: "time", Type: Duration, Default: "1s", Help: "how long it runs, in whole seconds",
		Min: int64(time.Second), Max: int64(time.Hour), Step: int64(time.Second)}
}
