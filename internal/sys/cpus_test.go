package sys

import (
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/limit"
)

// A study of a few KiB does not become a GiB of numbers.
func TestHostileListOfCPUs(t *testing.T) {
	for _, list := range []string{strings.Repeat("0-99999,", 400) + "0", "0-9223372036854775807"} {
		if over := limit.Study.CheckAlloc(func() {
			if _, err := ParseCPUs(list); err == nil || !strings.Contains(err.Error(), "more than") {
				t.Errorf("%.20s: %v", list, err)
			}
		}); over != nil {
			t.Errorf("%.20s: %v", list, over)
		}
	}
	if cpus, err := ParseCPUs("0-99999"); err != nil || len(cpus) != 100_000 { // the longest range that a study can write
		t.Errorf("%d CPUs, %v", len(cpus), err)
	}
}
