package report

import (
	"slices"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
)

// The headline says that a column is not of this machine, and every finding, once.
func TestVMMHeadline(t *testing.T) {
	findings := []string{"a boot", "a ratio", "another"}
	for name, c := range map[string]struct {
		targets, want []string
	}{
		"without StratoVirt": {[]string{"host", "qemu/microvm"}, append([]string{"StratoVirt was not measured here, its column is the published one: no KVM."}, findings...)},
		"with it":            {[]string{"host", "stratovirt/microvm"}, findings},
	} {
		if got := vmmHeadline(&analysis.VMMClaims{Targets: c.targets, CannotHere: "no KVM", Findings: findings}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
