package trial

import (
	"bytes"
	"fmt"
	"sync"
)

// mostConsole bounds what is kept of one console, in bytes: a boot writes less.
const mostConsole = 1 << 20

// console is what a machine printed, each line with the seconds since the request
// and since the line before, as grabserial -t has it: tools read that form, tare
// boot profile among them.
type console struct {
	mu   sync.Mutex // guards what follows
	text bytes.Buffer
	last float64
}

// add stamps a line that came now.
func (c *console) add(line string, request Stamp) {
	at := Now().Sub(request).Seconds()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.text.Len() < mostConsole {
		fmt.Fprintf(&c.text, "[%.6f %.6f] %s\n", at, at-c.last, line)
		c.last = at
	}
}

// kept is all of it.
func (c *console) kept() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.text.Bytes())
}
