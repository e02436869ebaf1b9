package cli

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// The first signal has all that is under way finished, and says so; a second Ctrl-C
// leaves, and no other signal does.
func TestHeed(t *testing.T) {
	for name, c := range map[string]struct {
		signals          []os.Signal
		finished, leaves int
	}{
		"none":                    {nil, 0, 0},
		"Ctrl-C":                  {[]os.Signal{os.Interrupt}, 1, 0},
		"twice":                   {[]os.Signal{os.Interrupt, os.Interrupt}, 1, 1},
		"a terminal that closes":  {[]os.Signal{syscall.SIGHUP, syscall.SIGHUP, syscall.SIGTERM}, 1, 0},
		"ended by another, then ": {[]os.Signal{syscall.SIGTERM, os.Interrupt}, 1, 1},
	} {
		signals := make(chan os.Signal, len(c.signals))
		for _, s := range c.signals {
			signals <- s
		}
		close(signals)
		var said strings.Builder
		finished, left := 0, 0
		heed(signals, &said, func() { finished++ }, func() { left++ })
		if finished != c.finished || left != c.leaves || strings.Contains(said.String(), "tare sweep") != (c.finished > 0) {
			t.Errorf("%s: finished %d times, left %d times, said %q", name, finished, left, said.String())
		}
	}
}
