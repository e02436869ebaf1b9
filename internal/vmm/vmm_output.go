package vmm

import (
	"fmt"
	"strings"
	"sync"
)

// How much of what a VMM says is kept: the first, which often names the cause, and
// the last.
const (
	saidFirst = 1 << 10
	saidLast  = 2 << 10
)

// words keeps the first and the last of what a VMM says, however much that is.
type words struct {
	mu    sync.Mutex // guards what follows
	first []byte
	last  []byte
	cut   int64 // bytes between the two
}

// Write never fails.
func (s *words) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(data)
	room := min(saidFirst-len(s.first), n)
	s.first, data = append(s.first, data[:room]...), data[room:]
	s.last = append(s.last, data...)
	if over := len(s.last) - saidLast; over > 0 {
		s.last, s.cut = append(s.last[:0], s.last[over:]...), s.cut+int64(over)
	}
	return n, nil
}

// text is what is kept, in one line, with what was cut.
func (s *words) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	between := ""
	if s.cut > 0 {
		between = fmt.Sprintf(" [%d bytes left out] ", s.cut)
	}
	all := strings.TrimSpace(string(s.first) + between + string(s.last))
	return strings.ToValidUTF8(strings.ReplaceAll(all, "\n", "; "), "?")
}
