package vmm

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/limit"
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
	if want := []Mark{MarkFirmware, MarkFirstByte, MarkKernel, MarkInit}; !slices.Equal(marks, want) || lines != 6 || dead != 0 {
		t.Errorf("marks %q, %d lines, %d panics; want %q, 6, 0", marks, lines, dead, want)
	}
	if got := c.tail(2); got != "tare: init\nlogin: " {
		t.Errorf("tail %q", got)
	}
	if string(c.text()) != text {
		t.Errorf("kept %q", c.text())
	}
}

// TestKernelsFirstByte: what stands on the console before the kernel is not the
// kernel's, whoever wrote it.
func TestKernelsFirstByte(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []Mark
	}{
		"at once":       {"[    0.000000] Linux version 6.1.0\n", []Mark{MarkFirstByte, MarkKernel}},
		"without times": {"Linux version 6.1.0\n", []Mark{MarkFirstByte, MarkKernel}},
		"arm64":         {"[    0.000000] Booting Linux on physical CPU 0x0\n", []Mark{MarkFirstByte}},
		"Firecracker":   {"2026-11-22T14:00:00.123456789 [anonymous-instance:main] Running Firecracker v1.13.0\n[    0.000000] Linux version 6.1.0\n", []Mark{MarkFirmware, MarkFirstByte, MarkKernel}},
		"OVMF":          {"\r\n\x1b[2J\x1b[01;01HBdsDxe: loading Boot0001\r\nEFI stub: Loaded initrd\r\n[    0.000000] Linux version 6.1.0\n", []Mark{MarkFirmware, MarkFirstByte, MarkKernel}},
		"quiet":         {"\r\ntare: init\n", []Mark{MarkInit}},
		"no kernel":     {"BdsDxe: failed to load Boot0001\n", []Mark{MarkFirmware}},
	} {
		if _, marks, _, _ := watchConsole(strings.NewReader(test.text)); !slices.Equal(marks, test.want) {
			t.Errorf("%s: marks %q, want %q", name, marks, test.want)
		}
	}
}

type iotestOneByte struct{ r io.Reader }

func (o iotestOneByte) Read(p []byte) (int, error) { return o.r.Read(p[:1]) }

// TestConsolePanic: the panic is told with the end of its line, also where that has
// none, and comes in pieces.
func TestConsolePanic(t *testing.T) {
	const line = "Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)"
	for name, text := range map[string]string{
		"a line":       "x\n[    1.2] " + line + "\r\n---[ end Kernel panic - not syncing: VFS ]---\r\n",
		"the last one": "x\n[    1.2] " + line,
		"no line":      strings.Repeat("flood ", 10_000) + line + "\r\n",
	} {
		for way, from := range map[string]io.Reader{"": strings.NewReader(text), ", byte by byte": iotestOneByte{strings.NewReader(text)}} {
			c, _, _, dead := watchConsole(from)
			if got := c.panicked(); got != line || dead != 1 {
				t.Errorf("%s%s: panic %q, told %d times", name, way, got, dead)
			}
		}
	}
}

// TestConsoleFlood lets a guest print 64 MiB, with lines and without.
func TestConsoleFlood(t *testing.T) {
	for name, piece := range map[string]string{"lines": "spam, spam, eggs and spam\n", "no line": "spam \x00\xff"} {
		t.Run(name, func(t *testing.T) {
			flood := io.LimitReader(&endless{piece: []byte(piece)}, 64<<20)
			c, marks, _, _ := watchConsole(io.MultiReader(flood, strings.NewReader("Linux version 6.1.0, Kernel panic - not syncing: enough")))
			if !slices.Contains(marks, MarkKernel) || c.panicked() != "Kernel panic - not syncing: enough" {
				t.Errorf("of what came after the flood, marks %q and the panic %q were seen", marks, c.panicked())
			}
			if cap(c.kept) > 8*int(limit.Console.Bytes) || cap(c.broken) > 2*consoleLine || cap(c.before) > 256<<10 || len(c.text()) > int(limit.Console.Bytes) {
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
