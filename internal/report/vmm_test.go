package report

import (
	"slices"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
)

// What an instance weighs is told apart by level, and by what lies behind it.
func TestWeightGrid(t *testing.T) {
	here := map[string]analysis.Estimate{"payload-rss": {Value: 300 << 20}, "vmm-overhead": {Value: 60 << 20}, "guest-resident": {Value: 240 << 20}}
	c := &analysis.VMMClaims{Held: []analysis.VMMHeld{{Target: "qemu/microvm", Level: "1cpu", Here: here}, {Target: "qemu/microvm", Level: "1cpu", Loaded: true, Here: here}}}
	g := weightGrid(c)
	if want := []string{"qemu/microvm", "after the load", "300 MiB", "", "240 MiB", "60.0 MiB", "", ""}; !slices.Equal(g.Rows[1], want) || len(g.Head) != len(want) {
		t.Errorf("%q, want %q", g.Rows[1], want)
	}
	c.Held[1].Level = "1GiB"
	if g = weightGrid(c); g.Head[2] != "level" || g.Rows[1][2] != "1GiB" || len(g.Rows[0]) != len(g.Head) {
		t.Errorf("%q, %q", g.Head, g.Rows)
	}
}

// The headline says that a column is not of this machine, and every finding, once.
func TestVMMHeadline(t *testing.T) {
	findings := []string{"a boot", "a ratio", "another"}
	for name, c := range map[string]struct {
		targets []string
		cannot  string
		want    []string
	}{
		"without StratoVirt": {[]string{"host", "qemu/microvm"}, "no KVM", append([]string{"StratoVirt was not measured here, its column is the published one: no KVM."}, findings...)},
		"not asked for":      {[]string{"host", "qemu/microvm"}, "", append([]string{"StratoVirt was not asked for: its column is the published one."}, findings...)},
		"with it":            {[]string{"host", "stratovirt/microvm"}, "", findings},
	} {
		if got := vmmHeadline(&analysis.VMMClaims{Targets: c.targets, CannotHere: c.cannot, Findings: findings}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
