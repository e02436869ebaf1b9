package netpath

import (
	"bufio"
	"errors"
	"fmt"
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
	listens chan struct{} // closed when it listens

	mu    sync.Mutex
	lines []string
}

func listen() (*serverOutput, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, driver.Labf("output of the other end: %w", err)
	}
	s := &serverOutput{in: in, out: out, listens: make(chan struct{})}
	go s.read()
	return s, nil
}

func (s *serverOutput) read() {
	lines := bufio.NewScanner(s.out)
	heard := false
	for lines.Scan() {
		text := strings.TrimRight(lines.Text(), "\r")
		if text == listenLine {
			if !heard {
				close(s.listens)
			}
			heard = true
			continue
		}
		s.mu.Lock()
		s.lines = append(s.lines[max(0, len(s.lines)-outputLines+1):], text)
		s.mu.Unlock()
	}
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
