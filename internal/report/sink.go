package report

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// sink is a buffered writer for layouts: printing returns no error, because
// bufio keeps the first one and flush returns it. Whatever is printed passes
// through visible, also what a layout forgot to clean.
type sink struct {
	b      *bufio.Writer
	styled bool // the layout's own styles pass: to a terminal
}

func newSink(w io.Writer, styled bool) sink { return sink{bufio.NewWriter(w), styled} }

func (s sink) printf(format string, args ...any) {
	_, _ = s.b.WriteString(s.visible(fmt.Sprintf(format, args...))) // kept for flush
}

// style is an escape that only changes how the text after it looks.
var style = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// visible is Clean of all but the styles that pass.
func (s sink) visible(text string) string {
	if !s.styled {
		return Clean(text)
	}
	var b strings.Builder
	from := 0
	for _, at := range style.FindAllStringIndex(text, -1) {
		b.WriteString(Clean(text[from:at[0]]) + text[at[0]:at[1]])
		from = at[1]
	}
	b.WriteString(Clean(text[from:]))
	return b.String()
}

// line prints a text and ends the line.
func (s sink) line(text string) { s.printf("%s\n", text) }

// flush writes what is buffered; what names the report in the error.
func (s sink) flush(what string) error {
	if err := s.b.Flush(); err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}
