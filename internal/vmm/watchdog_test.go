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

// TestFirmwareHasItsTime: a machine that boots by firmware may take longer to its
// kernel's first byte, and to no other mark.
func TestFirmwareHasItsTime(t *testing.T) {
	p, err := stratovirt{uefi: ovmf}.plan(Machine{CPUs: 1, Memory: 1 << 20, Firmware: "/firmware"})
	if err != nil {
		t.Fatal(err)
	}
	v := &VM{plan: p}
	for _, m := range order {
		want := DefaultPatience[m]
		if m == MarkFirstByte {
			want += uefiTime
		}
		if got := v.patience(m); got != want {
			t.Errorf("%s may take %v, want %v", m, got, want)
		}
	}
}

// A slow kernel that prints is given its time for the first process anew; one that stops
// printing hangs, and no line revives it.
func TestSlowKernel(t *testing.T) {
	v := &VM{config: Config{Slow: true, Mark: func(Mark) {}, Patience: map[Mark]time.Duration{MarkReady: time.Hour, MarkFirstByte: time.Hour, MarkKernel: time.Hour, MarkInit: time.Hour}},
		seen: map[Mark]bool{}, failed: make(chan error, 1)}
	for _, m := range []Mark{MarkReady, MarkFirstByte, MarkKernel} {
		v.mark(m)
	}
	v.config.Patience[MarkInit] = 10 * time.Millisecond
	v.line("[    1.0] still here")
	if err := <-v.failed; !strings.Contains(err.Error(), `no "init" came`) {
		t.Errorf("%v", err)
	}
	v.line("[    2.0] too late")
	if v.watchdog.Stop() {
		t.Error("a watchdog that has bitten is set again")
	}
}
