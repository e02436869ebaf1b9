package vmm

import (
	"maps"
	"testing"
	"time"
)

func TestSystemdTimes(t *testing.T) {
	for line, want := range map[string]map[string]time.Duration{
		"[    6.345] systemd[1]: Startup finished in 740ms (kernel) + 1.132s (initrd) + 4.472s (userspace) = 6.345s.\r": {
			"systemd-kernel": 740 * time.Millisecond, "systemd-initrd": 1132 * time.Millisecond, "systemd-userspace": 4472 * time.Millisecond, "systemd-total": 6345 * time.Millisecond},
		"Startup finished in 1.036s (kernel) + 2min 2.438s (userspace) = 2min 3.474s.": {
			"systemd-kernel": 1036 * time.Millisecond, "systemd-userspace": 122438 * time.Millisecond, "systemd-total": 123474 * time.Millisecond},
		"Startup finished in 3.1s (firmware) + 9.1ms (loader) + 2s (kernel) + 1s (userspace) = 6.109s.": {
			"systemd-kernel": 2 * time.Second, "systemd-userspace": time.Second, "systemd-total": 6109 * time.Millisecond},
		"Startup finished in NaNs (kernel) = 1s.":  nil,
		"Startup finished in 1s = 1s.":             nil,
		"Startup finished in 1s (kernel) = .":      nil,
		"systemd[1]: Reached target Multi-User":    nil,
		"Startup finished in -1s (kernel) = 1e9h.": nil,
	} {
		if got := SystemdTimes(line); !maps.Equal(got, want) {
			t.Errorf("%q gives %v, want %v", line, got, want)
		}
	}
}

// FuzzSystemdTimes: no line of a guest gives a time that is below zero.
func FuzzSystemdTimes(f *testing.F) {
	f.Add("Startup finished in 740ms (kernel) + 1min 4.472s (userspace) = 6.345s.")
	f.Fuzz(func(t *testing.T, line string) {
		for metric, d := range SystemdTimes(line) {
			if d < 0 {
				t.Errorf("%s is %v", metric, d)
			}
		}
	})
}
