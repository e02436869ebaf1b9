package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"golang.org/x/term"

	"github.com/tarelab/tare/internal/report"
)

// errReaderGone says that nobody reads standard output any more (tare report | head).
var errReaderGone = errors.New("standard output: its reader has gone")

// output is standard output that remembers when it could not be written: a
// report that is cut short must not end with exit code 0. What is written to a
// reader who has gone is dropped, and the rest of the work is done: a run is kept
// and cleaned up after, with its page.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	if errors.Is(o.err, errReaderGone) {
		return len(p), nil
	}
	n, err := o.Writer.Write(p)
	switch {
	case errors.Is(err, syscall.EPIPE):
		o.err = errReaderGone
		return len(p), nil
	case err != nil && o.err == nil:
		o.err = fmt.Errorf("standard output: %w", err)
	}
	return n, err
}

// lost reports whether what is written to w reaches nobody.
func lost(w io.Writer) bool {
	o, ok := w.(*output)
	return ok && o.err != nil
}

// visible is a stream for text, and for JSON, whose values stay: what runtimes, guests and
// files have put into it cannot command the terminal. What draws there writes to raw.
type visible struct{ io.Writer }

func (v visible) Write(p []byte) (int, error) {
	_, err := io.WriteString(v.Writer, report.Clean(string(p)))
	return len(p), err
}

// raw is the stream as main handed it in.
func raw(w io.Writer) io.Writer {
	switch w := w.(type) {
	case *output:
		return w.Writer
	case visible:
		return w.Writer
	}
	return w
}

// terminal reports whether a stream is a terminal.
func terminal(w io.Writer) bool {
	f, ok := file(w)
	return ok && term.IsTerminal(int(f.Fd()))
}

// draws reports whether a stream is a terminal that takes escape sequences. A dumb one,
// and one of no known kind, shows them as text.
func (env *Env) draws(w io.Writer) bool {
	return terminal(w) && !slices.Contains([]string{"", "dumb"}, env.Getenv("TERM"))
}

// file is the file behind a stream, where it is one.
func file(w io.Writer) (*os.File, bool) {
	f, ok := raw(w).(*os.File)
	return f, ok
}
