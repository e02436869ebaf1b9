package lab_test

import (
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/lab"
)

// TestProveKVM sees the fact follow what guests showed, and stay as it is where
// no VMM was tried.
func TestProveKVM(t *testing.T) {
	finding := func(notes map[string]string) lab.Finding {
		return lab.Finding{Target: "qemu/microvm", Facts: driver.Facts{Notes: notes}}
	}
	for name, c := range map[string]struct {
		found []lab.Finding
		ok    bool
		why   string
	}{
		"no VMM":      {nil, false, "unproven"},
		"containers":  {[]lab.Finding{finding(map[string]string{"platform": "systrap"})}, false, "unproven"},
		"a guest ran": {[]lab.Finding{finding(map[string]string{"accel": "kvm"})}, true, ""},
		"none did":    {[]lab.Finding{finding(map[string]string{"accel": "tcg", "no-kvm": "it hangs"})}, false, "it hangs"},
		"one of two":  {[]lab.Finding{finding(map[string]string{"no-kvm": "it hangs"}), finding(map[string]string{"accel": "kvm"})}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			facts := []hostinfo.Fact{{Name: "BTF", OK: true}, {Name: "KVM", Why: "unproven"}}
			lab.ProveKVM(facts, c.found)
			if facts[1].OK != c.ok || facts[1].Why != c.why || !facts[0].OK {
				t.Errorf("facts %+v, want KVM %v, %q", facts, c.ok, c.why)
			}
		})
	}
}
