package study

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agext/levenshtein"
)

// Problem is one thing that is wrong with a study.
type Problem struct {
	Line, Column int    // from 1; 0 where the study was not read from a text
	Key          string // where in the study: "workloads[1].kind"; "" for the whole
	Message      string // what is wrong and what to do
	Text         string // the source line, "" where there is none
}

// Error is all that is wrong with a study, in the order of the text.
type Error struct {
	Name     string // of the study or its file
	Problems []Problem
}

// Error shows every problem as "name:line:column: key: message" with the source
// line and a caret below it.
func (e *Error) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		p.show(&b, e.Name)
	}
	return b.String()
}

func (p Problem) show(b *strings.Builder, name string) {
	b.WriteString(name)
	if p.Line > 0 {
		fmt.Fprintf(b, ":%d:%d", p.Line, p.Column)
	}
	if p.Key != "" {
		b.WriteString(": " + printable(p.Key))
	}
	b.WriteString(": " + printable(p.Message))
	if p.Text == "" {
		return
	}
	number := fmt.Sprint(p.Line)
	margin := strings.Repeat(" ", len(number))
	fmt.Fprintf(b, "\n  %s | %s\n  %s | %s^", number, p.Text, margin, indent(p.Text, p.Column-1))
}

// indent is blank as far as the n-th character of text, tabs kept, so that a
// caret written after it stands below that character.
func indent(text string, n int) string {
	var b strings.Builder
	for i, r := range []rune(text) {
		if i >= n {
			break
		}
		if r != '\t' {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}

// listed says where all of a long list of names can be read.
var listed = map[string]string{"target": "; tare check lists them", "study": "; tare studies lists them"}

// unknown words the refusal of a name, with the nearest known one.
func unknown(what, name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return fmt.Sprintf("unknown %s %q: did you mean %q?", what, name, near)
	}
	if len(known) == 0 {
		return fmt.Sprintf("unknown %s %q: none is known", what, name)
	}
	if most := 12; len(known) > most {
		return fmt.Sprintf("unknown %s %q: known are %s and %d more%s", what, name, strings.Join(known[:most], ", "), len(known)-most, listed[what])
	}
	return fmt.Sprintf("unknown %s %q: known are %s", what, name, strings.Join(known, ", "))
}

// Nearest returns the known name that a mistyped one most likely meant: the
// one at the smallest edit distance, at most a third of the name's length (and
// at least 2) away. It returns "" when none is that near.
func Nearest(name string, known []string) string {
	best, distance := "", max(2, len(name)/3)+1
	for _, k := range known {
		if strings.EqualFold(k, name) {
			return k
		}
		if d := levenshtein.Distance(name, k, nil); d < distance && d < len(k) {
			best, distance = k, d
		}
	}
	return best
}

// Meant asks for the nearest known name at the end of a refusal; "" where none is near.
func Meant(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// source remembers where each value of a study was written.
type source struct {
	name  string
	lines []string
	at    map[string]place // by key path; "" is the whole
}

type place struct{ line, column int }

// problem makes a Problem at the place of a key, or of the nearest key above it.
func (s *source) problem(key, message string) Problem {
	p := Problem{Key: key, Message: message}
	if s == nil {
		return p
	}
	at, ok := s.at[key]
	for up := key; !ok && up != ""; {
		up = up[:max(0, strings.LastIndexAny(up, ".["))]
		at, ok = s.at[up]
	}
	p.Line, p.Column = at.line, at.column
	if at.line > 0 && at.line <= len(s.lines) {
		p.Text, p.Column = clip(s.lines[at.line-1], at.column)
	}
	return p
}

// clip bounds a source line for display; a column outside it becomes 1.
func clip(line string, column int) (string, int) {
	const width = 200
	line = line[:min(len(line), utf8.UTFMax*(width+1))] // a hostile study has thousands of problems in one long line
	runes := []rune(printable(line))
	if len(runes) > width {
		runes = append(runes[:width], '…')
	}
	return string(runes), min(max(1, column), len(runes)+1)
}

// printable replaces the control characters of a hostile file, which must not
// reach a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' || r == utf8.RuneError {
			return utf8.RuneError
		}
		return r
	}, text)
}

// report sorts problems by place and makes them one error; nil when there is none.
func (s *source) report(name string, problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if s != nil {
		name = s.name
	}
	const most = 20 // more than a screen helps nobody
	if rest := len(problems) - most; rest > 0 {
		problems = append(problems[:most:most], Problem{Message: fmt.Sprintf("and %d more problems", rest)})
	}
	return &Error{Name: name, Problems: problems}
}
