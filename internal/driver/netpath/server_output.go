package netpath

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/tarelab/tare/internal/driver"
)

// listenLine is what helpers/net prints when a server listens.
const listenLine = "net: listening"

// outputLines is how many of a server's last lines are kept for messages.
const outputLines = 20

// serverOutput reads what a server prints. The line that it listens crosses every
// boundary, of containers and of guests. Its other lines explain why it does not.
type serverOutput struct {
	in      *os.File
	out     *os.File
	listens chan struct{} // closed when one listens
	news    chan struct{} // has something when more lines have come since it was read

	mu    sync.Mutex
	lines []string
	heard int // how often it was said that somebody listens
}

func listen() (*serverOutput, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, driver.Labf("output of the other end: %w", err)
	}
	s := &serverOutput{in: in, out: out, listens: make(chan struct{}), news: make(chan struct{}, 1)}
	go s.read()
	return s, nil
}

func (s *serverOutput) read() {
	lines := bufio.NewScanner(s.out)
	for lines.Scan() {
		text := strings.TrimRight(lines.Text(), "\r")
		if text == listenLine {
			s.hear()
			continue
		}
		s.mu.Lock()
		s.lines = append(s.lines[max(0, len(s.lines)-outputLines+1):], text)
		s.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, s.out) // behind a line that is too long: who writes must not wait
}

// hear notes that one more listens.
func (s *serverOutput) hear() {
	s.mu.Lock()
	s.heard++
	first := s.heard == 1
	s.mu.Unlock()
	if first {
		close(s.listens)
	}
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// count is how often it was said that somebody listens.
func (s *serverOutput) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard
}

// explain adds the server's last lines to an error.
func (s *serverOutput) explain(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lines) == 0 {
		return err
	}
	return fmt.Errorf("%w; it said: %s", err, strings.Join(s.lines, "\n"))
}

func (s *serverOutput) close() error { return errors.Join(s.in.Close(), s.out.Close()) }
