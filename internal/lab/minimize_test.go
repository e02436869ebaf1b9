package lab

import (
	"testing"

	"github.com/tarelab/tare/internal/target"
)

// TestFirstFailed: a candidate is refused by its first check that failed, with what
// it could do before.
func TestFirstFailed(t *testing.T) {
	ok := func(name string) target.ProofCheck { return target.ProofCheck{Name: name, Result: target.ProofPassed} }
	bad := target.ProofCheck{Name: "crun", Result: "failed: no such device"}
	for name, test := range map[string]struct {
		checks []target.ProofCheck
		want   string
	}{
		"passes": {[]target.ProofCheck{ok("docker run"), ok("crun")}, ""},
		"later":  {[]target.ProofCheck{ok("docker run"), ok("port"), bad, ok("clean shutdown")}, "crun: failed: no such device; checks passed before: docker run, port"},
		"first":  {[]target.ProofCheck{bad}, "crun: failed: no such device; checks passed before: none"},
	} {
		if got := firstFailed(test.checks); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
