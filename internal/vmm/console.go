package vmm

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"sync"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sample"
)

// How much of a console is kept, whatever a guest prints: a line's first bytes, and of
// the whole its last. Signs are looked for in all of it, and may be consoleSign long.
const (
	consoleLine = 4 << 10
	consoleSign = 64
)

// Mark is a moment in a machine's life, as the host sees it.
type Mark string

// The marks, in their order.
const (
	MarkExec       Mark = sample.VMMExecuted  // the VMM's program was executed
	MarkReady      Mark = sample.VMMReady     // its control channel answered
	MarkRestored   Mark = sample.Restored     // a saved guest runs again
	MarkFirmware   Mark = sample.Firmware     // the first line on the console, where it is not the kernel's
	MarkFirstByte  Mark = sample.KernelByte   // the kernel's first words on the console
	MarkKernel     Mark = sample.KernelBanner // its banner, "Linux version ..."
	MarkInit       Mark = sample.GuestInit    // "Run ... as init process", or the agent's first line
	MarkAgent      Mark = sample.Agent        // the agent said hello
	MarkBallooned  Mark = sample.Ballooned    // the guest has given up the memory of a balloon
	MarkPlugged    Mark = sample.Plugged      // the guest has the memory that was added
	MarkPanicked   Mark = sample.Panicked     // the kernel panicked
	MarkPoweredOff Mark = sample.PoweredOff   // the VMM has ended
)

// console reads what a guest prints: it reports marks and lines, and keeps the
// last of it.
type console struct {
	mark func(Mark)
	line func(string) // called for every line; may be nil
	dead func()       // called when the kernel has panicked

	mu     sync.Mutex // guards what follows
	kept   []byte
	before []byte // the last that was looked at: a sign may come in pieces
	panic  []byte // the kernel's line, as far as it came; nil while it lives
	told   bool   // whether the panic's line has ended
	done   map[Mark]bool
	broken []byte // of a line that has not ended
}

// consoleMarks are by what the console holds, wherever in a line: a serial port may
// put other text before it.
var consoleMarks = []struct {
	mark Mark
	sign func(text []byte) bool
}{
	{MarkFirstByte, func(text []byte) bool { return printkTime.Match(text) || kernelBanner(text) }},
	{MarkKernel, kernelBanner},
	{MarkInit, func(text []byte) bool { return holds(text, InitSign) || holds(text, "tare: init") }},
}

// InitSign is in the line with which a kernel starts the first process.
const InitSign = " as init process"

// printkTime begins each line of a kernel that tells times. Firmware, and VMMs that
// write to the same pipe, have other words.
var printkTime = regexp.MustCompile(`\[ *\d+\.\d{6}\]`)

func kernelBanner(text []byte) bool { return holds(text, "Linux version ") }

func holds(text []byte, words string) bool { return bytes.Contains(text, []byte(words)) }

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
			c.end()
			return
		}
	}
}

func (c *console) take(data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.kept) > 2*int(limit.Console.Bytes) {
		c.kept = append(c.kept[:0], c.kept[len(c.kept)-int(limit.Console.Bytes):]...)
	}
	c.kept = append(c.kept, data...)
	for line := range bytes.Lines(data) {
		c.scan(line)
		text, ended := bytes.CutSuffix(line, []byte{'\n'})
		c.broken = append(c.broken, text[:min(len(text), consoleLine-len(c.broken))]...)
		if ended {
			c.look()
		}
	}
}

// end looks at a last line that has no end.
func (c *console) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.broken) > 0 {
		c.look()
	}
}

// scan looks for signs in what came, with the end of what came before it.
func (c *console) scan(data []byte) {
	text := append(c.before, data...)
	for _, m := range consoleMarks {
		if !c.done[m.mark] && m.sign(text) {
			c.tell(m.mark)
		}
	}
	if c.panic != nil {
		c.dying(data)
	} else if at := bytes.Index(text, []byte(panicWords)); at >= 0 {
		c.panic = []byte{}
		c.dying(text[at:])
		c.dead()
	}
	c.before = append(c.before[:0], text[max(0, len(text)-consoleSign):]...)
}

// tell passes a mark on, once.
func (c *console) tell(m Mark) {
	if !c.done[m] {
		c.done[m] = true
		c.mark(m)
	}
}

// dying takes the panic's line to its end.
func (c *console) dying(data []byte) {
	if c.told {
		return
	}
	if end := bytes.IndexAny(data, "\r\n"); end >= 0 {
		data, c.told = data[:end], true
	}
	c.panic = append(c.panic, data[:min(len(data), consoleLine-len(c.panic))]...)
}

// look is at a line.
func (c *console) look() {
	line := strings.TrimRight(string(c.broken), "\r")
	c.broken = c.broken[:0]
	if !c.done[MarkFirstByte] && !c.done[MarkInit] && strings.TrimSpace(line) != "" {
		c.tell(MarkFirmware)
	}
	if c.line != nil {
		c.line(line)
	}
}

// panicked is the kernel's line, "" while it lives.
func (c *console) panicked() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.panic)
}

// text is what is kept.
func (c *console) text() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.kept[max(0, len(c.kept)-int(limit.Console.Bytes)):])
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
