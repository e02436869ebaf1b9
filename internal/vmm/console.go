package vmm

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"sync"
)

// How much of a console is looked at: a line's first bytes, and of the whole
// its last, whatever a guest prints.
const (
	consoleLine = 4 << 10
	consoleKept = 256 << 10
)

// Mark is a moment in a machine's life, as the host sees it.
type Mark string

// The marks, in their order.
const (
	MarkExec       Mark = "vmm"         // the VMM's program was executed
	MarkReady      Mark = "vmm-ready"   // its control channel answered
	MarkFirstByte  Mark = "kernel-byte" // the kernel's first byte on the console
	MarkKernel     Mark = "kernel"      // its banner, "Linux version ..."
	MarkInit       Mark = "init"        // "Run ... as init process", or the agent's first line
	MarkAgent      Mark = "agent"       // the agent said hello
	MarkPoweredOff Mark = "off"         // the VMM has ended
)

// console reads what a guest prints: it reports marks and lines, and keeps the
// last of it.
type console struct {
	mark func(Mark)
	line func(string) // called for every line; may be nil
	dead func()       // called when the kernel has panicked

	mu     sync.Mutex // guards what follows
	kept   []byte
	panic  string
	begun  bool
	done   map[Mark]bool
	broken []byte // of a line that has not ended
}

// consoleMarks are by what a line holds; a serial port may put other text
// before it.
var consoleMarks = []struct {
	mark  Mark
	words []string // one of them
}{
	{MarkKernel, []string{"Linux version "}},
	{MarkInit, []string{" as init process", "tare: init"}},
}

// panicWords begin the last thing that a kernel says.
const panicWords = "Kernel panic - not syncing"

func newConsole(mark func(Mark), line func(string)) *console {
	return &console{mark: mark, line: line, done: map[Mark]bool{}}
}

// read takes a console to its end.
func (c *console) read(from io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			c.take(buffer[:n])
		}
		if err != nil {
			return
		}
	}
}

func (c *console) take(data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.begun {
		c.begun = true
		c.mark(MarkFirstByte)
	}
	if len(c.kept) > 2*consoleKept {
		c.kept = append(c.kept[:0], c.kept[len(c.kept)-consoleKept:]...)
	}
	c.kept = append(c.kept, data...)
	for len(data) > 0 {
		line, rest, ended := bytes.Cut(data, []byte{'\n'})
		data = rest
		if room := consoleLine - len(c.broken); len(line) > room {
			line = line[:room]
		}
		c.broken = append(c.broken, line...)
		if !ended {
			return
		}
		c.look(strings.TrimRight(string(c.broken), "\r"))
		c.broken = c.broken[:0]
	}
}

func (c *console) look(line string) {
	for _, m := range consoleMarks {
		if !c.done[m.mark] && slices.ContainsFunc(m.words, func(w string) bool { return strings.Contains(line, w) }) {
			c.done[m.mark] = true
			c.mark(m.mark)
		}
	}
	if at := strings.Index(line, panicWords); at >= 0 && c.panic == "" {
		c.panic = line[at:]
		c.dead()
	}
	if c.line != nil {
		c.line(line)
	}
}

// panicked is the kernel's line, "" while it lives.
func (c *console) panicked() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.panic
}

// text is what is kept.
func (c *console) text() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.kept[max(0, len(c.kept)-consoleKept):])
}

// tail are the last lines that are not empty, fit to be printed.
func (c *console) tail(lines int) string {
	all := strings.FieldsFunc(string(c.text()), func(r rune) bool { return r == '\n' || r == '\r' })
	all = all[max(0, len(all)-lines):]
	for i, l := range all {
		l = strings.Map(func(r rune) rune {
			if r < ' ' && r != '\t' || r == 0x7f {
				return -1
			}
			return r
		}, l)
		all[i] = l[:min(len(l), 300)]
	}
	return strings.ToValidUTF8(strings.Join(all, "\n"), "?")
}
