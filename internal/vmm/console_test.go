package vmm

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
)

// watchConsole gives what a console says to its machine.
func watchConsole(from io.Reader) (c *console, marks []Mark, lines int, dead int) {
	c = newConsole(func(m Mark) { marks = append(marks, m) }, func(string) { lines++ })
	c.dead = func() { dead++ }
	c.read(from)
	return c, marks, lines, dead
}

func TestConsoleMarks(t *testing.T) {
	text := "\x1b[2JSeaBIOS\r\n\x1bc[    0.000000] Linux version 6.1.0-56-cloud-amd64 (x@y)\r\n" +
		"[    0.1] Linux version 6.1.0 again\r\n[    2.1] Run /.tare/init as init process\r\ntare: init\r\nlogin: "
	// In pieces of one byte, as a serial port gives them.
	c, marks, lines, dead := watchConsole(iotestOneByte{strings.NewReader(text)})
	if want := []Mark{MarkFirstByte, MarkKernel, MarkInit}; !slices.Equal(marks, want) || lines != 5 || dead != 0 {
		t.Errorf("marks %q, %d lines, %d panics; want %q, 5, 0", marks, lines, dead, want)
	}
	if got := c.tail(2); got != "tare: init\nlogin: " {
		t.Errorf("tail %q", got)
	}
	if string(c.text()) != text {
		t.Errorf("kept %q", c.text())
	}
}

type iotestOneByte struct{ r io.Reader }

func (o iotestOneByte) Read(p []byte) (int, error) { return o.r.Read(p[:1]) }

func TestConsolePanic(t *testing.T) {
	const line = "[    1.2] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)"
	c, _, _, dead := watchConsole(strings.NewReader("x\n" + line + "\r\n---[ end Kernel panic - not syncing: VFS ]---\r\n"))
	if got := c.panicked(); got != line[len("[    1.2] "):] || dead != 1 {
		t.Errorf("panic %q, told %d times", got, dead)
	}
}

// TestConsoleFlood lets a guest print 64 MiB, with lines and without.
func TestConsoleFlood(t *testing.T) {
	for name, piece := range map[string]string{"lines": "spam, spam, eggs and spam\n", "no line": "spam \x00\xff"} {
		t.Run(name, func(t *testing.T) {
			flood := io.LimitReader(&endless{piece: []byte(piece)}, 64<<20)
			c, marks, _, _ := watchConsole(io.MultiReader(flood, strings.NewReader("\nLinux version 6.1.0\n")))
			if !slices.Contains(marks, MarkKernel) {
				t.Error("the banner after the flood was not seen")
			}
			if cap(c.kept) > 8*consoleKept || cap(c.broken) > 2*consoleLine || len(c.text()) > consoleKept {
				t.Errorf("of 64 MiB, %d bytes are kept in lines of %d", cap(c.kept), cap(c.broken))
			}
			if len(c.tail(20)) > 20*301 {
				t.Errorf("the tail has %d bytes", len(c.tail(20)))
			}
		})
	}
}

type endless struct{ piece []byte }

func (e *endless) Read(p []byte) (int, error) {
	return copy(p, bytes.Repeat(e.piece, len(p)/len(e.piece)+1)), nil
}
