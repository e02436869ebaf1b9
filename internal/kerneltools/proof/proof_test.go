package proof

import (
	"testing"

	"github.com/tarelab/tare/internal/driver"
)

// TestFirstFailed: a candidate is refused by its first check that failed, with what
// it could do before.
func TestFirstFailed(t *testing.T) {
	ok := func(name string) driver.ProofCheck { return driver.ProofCheck{Name: name, Result: driver.ProofPassed} }
	bad := driver.ProofCheck{Name: "crun", Result: "failed: no such device"}
	for name, test := range map[string]struct {
		checks []driver.ProofCheck
		want   string
	}{
		"passes": {[]driver.ProofCheck{ok("docker run"), ok("crun")}, ""},
		"later":  {[]driver.ProofCheck{ok("docker run"), ok("port"), bad, ok("clean shutdown")}, "crun: failed: no such device; checks passed before: docker run, port"},
		"first":  {[]driver.ProofCheck{bad}, "crun: failed: no such device; checks passed before: none"},
	} {
		if got := firstFailed(test.checks); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
