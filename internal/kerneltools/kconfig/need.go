package kconfig

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/yamldoc"
)

// A Need is what a program or a machine needs of its kernel, as a data file.
type Need struct {
	ID       string   `yaml:"id"`
	Title    string   `yaml:"title"`
	Source   string   `yaml:"source"`   // where its symbols are from; a want may name its own
	Includes []string `yaml:"includes"` // other needs
	Wants    []Want   `yaml:"symbols"`
}

// A Want is one symbol that a need asks for.
type Want struct {
	Symbol   string   `yaml:"symbol" json:"symbol"`               // without CONFIG_
	Or       []string `yaml:"or" json:"or,omitempty"`             // symbols that serve as well
	Value    string   `yaml:"value" json:"value,omitempty"`       // empty: y or m; y: built in; n: off; else a number, or a text with its quotes
	Why      string   `yaml:"why" json:"why"`                     // what fails without it
	Source   string   `yaml:"source" json:"source"`               // who says so
	Optional bool     `yaml:"optional" json:"optional,omitempty"` // better with it, but works without
	Since    string   `yaml:"since" json:"since,omitempty"`       // the first kernel that has it, as 4.15
	Before   string   `yaml:"before" json:"before,omitempty"`     // the first kernel that no longer has it
	Arch     []string `yaml:"arch" json:"arch,omitempty"`         // only on these, as the configuration names them
	Need     string   `yaml:"-" json:"need"`                      // whose want it is
}

var (
	symbolName = regexp.MustCompile(`^[A-Z0-9a-z_]{1,80}$`)
	release    = regexp.MustCompile(`^\d+\.\d+$`)
	assignable = regexp.MustCompile(`^(y|n|-?\d+|0x[0-9a-fA-F]+|".*")?$`)
)

// ParseNeed reads one need, strictly: a key that it does not know is an error.
func ParseNeed(data []byte) (*Need, error) {
	n := new(Need)
	node, err := yamldoc.Parse(data, limit.Need)
	if err == nil {
		err = yaml.NodeToValue(node, n, yaml.Strict())
	}
	if err != nil {
		return nil, fmt.Errorf("%s", yaml.FormatError(err, false, true))
	}
	if n.ID == "" || n.Title == "" {
		return nil, fmt.Errorf("a need has an id and a title")
	}
	if len(n.Wants) == 0 && len(n.Includes) == 0 {
		return nil, fmt.Errorf("need %q asks for nothing: it has neither symbols nor includes", n.ID)
	}
	for i := range n.Wants {
		w := &n.Wants[i]
		w.Symbol = strings.TrimPrefix(w.Symbol, "CONFIG_")
		w.Need = n.ID
		if w.Source == "" {
			w.Source = n.Source
		}
		if err := w.check(); err != nil {
			return nil, fmt.Errorf("need %q: %w", n.ID, err)
		}
	}
	return n, nil
}

func (w *Want) check() error {
	for _, s := range append([]string{w.Symbol}, w.Or...) {
		if !symbolName.MatchString(s) {
			return fmt.Errorf("%q is no Kconfig symbol", s)
		}
	}
	if !assignable.MatchString(w.Value) {
		return fmt.Errorf(`%s: value %q is none of y, n, a number, and a text in double quotes, as '"lz4"'; without one both y and m will do`, w.Symbol, w.Value)
	}
	for _, v := range []string{w.Since, w.Before} {
		if v != "" && !release.MatchString(v) {
			return fmt.Errorf("%s: %q is no kernel version as 4.15", w.Symbol, v)
		}
	}
	if w.Why == "" || w.Source == "" {
		return fmt.Errorf("%s has no reason (why) or no source", w.Symbol)
	}
	return nil
}

// on says whether the want is for an architecture: one that is not known has all.
func (w *Want) on(arch string) bool {
	return arch == "" || len(w.Arch) == 0 || slices.Contains(w.Arch, arch)
}

// exists says whether a kernel of a version has the symbol: an unknown version
// has all.
func (w *Want) exists(version string) bool {
	if version == "" {
		return true
	}
	return (w.Since == "" || !isOlder(version, w.Since)) && (w.Before == "" || isOlder(version, w.Before))
}

// isOlder says whether kernel a is older than b, by their first two numbers.
func isOlder(a, b string) bool {
	am, an := twoNumbers(a)
	bm, bn := twoNumbers(b)
	return am < bm || am == bm && an < bn
}

var leading = regexp.MustCompile(`^(\d{1,6})\.(\d{1,6})`)

func twoNumbers(version string) (major, minor int) {
	m := leading.FindStringSubmatch(version)
	if m == nil {
		return 0, 0
	}
	major, _ = strconv.Atoi(m[1]) // digits: cannot fail
	minor, _ = strconv.Atoi(m[2])
	return major, minor
}
