package report

import (
	"bufio"
	"fmt"
	"io"
)

// sink is a buffered writer for layouts: printing returns no error, because
// bufio keeps the first one and flush returns it.
type sink struct{ b *bufio.Writer }

func newSink(w io.Writer) sink { return sink{bufio.NewWriter(w)} }

func (s sink) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(s.b, format, args...) // kept for flush
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
