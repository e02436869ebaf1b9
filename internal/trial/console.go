package trial

import (
	"bytes"
	"fmt"
	"sync"
)

// mostConsole bounds what is kept of one console, in bytes: a boot writes less.
const mostConsole = 1 << 20

// Console is what a machine printed, each line with the seconds since the request
// and since the line before, as grabserial -t has it: tools read that form, tare
// boot profile among them. It is safe for concurrent use; its zero value is empty.
type Console struct {
	mu   sync.Mutex // guards what follows
	text bytes.Buffer
	last float64
}

// Add stamps a line that came now. Of more than a mebibyte the rest is dropped.
func (c *Console) Add(line string, request Stamp) {
	at := Now().Sub(request).Seconds()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.text.Len() < mostConsole {
		fmt.Fprintf(&c.text, "[%.6f %.6f] %s\n", at, at-c.last, line)
		c.last = at
	}
}

// Kept is all of it.
func (c *Console) Kept() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.text.Bytes())
}
