package trial

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/tarelab/tare/internal/driver"
)

// keepBytes is how much of a stream is kept for the workload's parser and for
// messages; the rest is read, counted and dropped.
const keepBytes = 16 << 20

// stream reads one of the payload's output streams to its end.
type stream struct {
	read, write *os.File
	expects     act      // what of it is stamped
	answers     *answers // takes its lines; nil where the payload takes no turns

	begun sync.Once
	done  chan struct{}
	seen  chan struct{} // closed when it is settled whether the mark arrived
	acted Stamp         // when it did; 0 when it never did. Valid once seen is closed
	total int64         // bytes without the mark
	err   error

	mu   sync.Mutex // guards kept: a message may quote it while the stream is open
	kept bytes.Buffer
}

// act is what of a stream says that the payload acted.
type act int

const (
	nothing act = iota
	theMark     // a leading driver.Acted, which is stripped
	anyByte     // its first byte
)

// readBytes is how much of a busy stream is read at once: what a pipe holds.
const readBytes = 64 << 10

func newStream(expects act) (*stream, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &stream{read: r, write: w, expects: expects, done: make(chan struct{}), seen: make(chan struct{})}, nil
}

// begin reads the stream in a goroutine of its own from now on, before the payload is
// requested, so that the first byte finds it waiting. Not as soon as the stream is made:
// thousands of copies wait for their turn, and each goroutine has a stack.
func (s *stream) begin() { s.begun.Do(func() { go s.collect() }) }

// collect reads until every writer has closed.
func (s *stream) collect() {
	defer close(s.done)
	// Thousands of streams wait at once and most carry a line: only one that
	// fills its buffer gets a large one.
	buf := make([]byte, 256)
	var head []byte
	for {
		n, err := s.read.Read(buf)
		now := Now()
		data := buf[:n]
		switch s.expects {
		case theMark:
			head = append(head, data...)
			data = s.takeMark(head, now, err != nil)
			if s.expects == theMark {
				data = nil
			}
		case anyByte:
			if n > 0 {
				s.acted = now
			}
			if n > 0 || err != nil {
				s.expects = nothing
				close(s.seen)
			}
		}
		s.keep(data)
		if s.answers != nil {
			s.answers.take(data, now)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
				s.err = err
			}
			return
		}
		if n == len(buf) && n < readBytes {
			buf = make([]byte, readBytes)
		}
	}
}

// takeMark looks for the mark at the start of head. It expects nothing more when
// the question is settled, and returns what belongs to the payload.
func (s *stream) takeMark(head []byte, now Stamp, last bool) []byte {
	if len(head) < len(driver.Acted) && !last && bytes.HasPrefix([]byte(driver.Acted), head) {
		return nil
	}
	s.expects = nothing
	rest, found := bytes.CutPrefix(head, []byte(driver.Acted))
	if found {
		s.acted = now
	}
	close(s.seen)
	return rest
}

func (s *stream) keep(data []byte) {
	s.total += int64(len(data))
	s.mu.Lock()
	defer s.mu.Unlock()
	if room := keepBytes - s.kept.Len(); room > 0 {
		s.kept.Write(data[:min(len(data), room)])
	}
}

// drain closes our end for writing and waits for the reader. A process that
// outlives the payload may hold the stream open: after drainGrace it is cut off and
// drain reports false.
func (s *stream) drain() bool {
	s.begin()
	s.write.Close()
	select {
	case <-s.done:
		s.read.Close()
		return true
	case <-time.After(drainGrace):
		s.read.Close()
		<-s.done
		return false
	}
}

// tail is the end of what was kept, for messages: at most 2 KiB.
func (s *stream) tail() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.kept.Bytes()
	return string(bytes.TrimSpace(b[max(0, len(b)-2<<10):]))
}
