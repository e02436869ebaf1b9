package fleet

import (
	"strings"
	"testing"
)

// Every name that a plan gives its jobs is taken back from the file of events.
func TestJobsAreKnownByTheirNames(t *testing.T) {
	p := Plan{Token: "abcd0123"}
	for _, machine := range []string{"n1", "Node_1.example.org", strings.Repeat("n", 90), strings.Repeat("n-", 45), "日本", "-", "a--b", "1"} {
		for _, attempt := range []int{1, 12} {
			if name := p.jobOf(1234, machine, attempt).Name; !p.isJob(name) {
				t.Errorf("%q of %q", name, machine)
			}
		}
	}
}
