package vmm

import (
	"strings"
	"testing"
	"time"
)

// TestWatchdog: a guest whose kernel is quiet has no banner, and is past it once
// its agent speaks; one that says nothing more after its first byte hangs.
func TestWatchdog(t *testing.T) {
	for name, test := range map[string]struct {
		marks []Mark
		want  string // of the failure; "" for none
	}{
		"quiet": {[]Mark{MarkReady, MarkFirstByte, MarkAgent}, ""},
		"whole": {[]Mark{MarkReady, MarkFirstByte, MarkKernel, MarkInit, MarkAgent}, ""},
		"hangs": {[]Mark{MarkReady, MarkFirstByte}, `no "kernel" came`},
		"deaf":  {[]Mark{MarkFirstByte, MarkAgent}, `no "vmm-ready" came`},
	} {
		patience := map[Mark]time.Duration{}
		for _, m := range order {
			patience[m] = 300 * time.Millisecond // the marks below come at once
		}
		v := &VM{config: Config{Machine: Machine{Agent: true}, Mark: func(Mark) {}, Patience: patience}, seen: map[Mark]bool{}, failed: make(chan error, 1)}
		for _, m := range test.marks {
			v.mark(m)
		}
		select {
		case err := <-v.failed:
			if test.want == "" || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, want %q", name, err, test.want)
			}
		case <-time.After(time.Second):
			if test.want != "" {
				t.Errorf("%s: nothing failed, want %q", name, test.want)
			}
		}
	}
}
