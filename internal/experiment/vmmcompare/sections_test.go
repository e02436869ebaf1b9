package vmmcompare

import (
	"slices"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

// What an instance weighs is told apart by level, and by what lies behind it.
func TestMemoryTable(t *testing.T) {
	here := map[string]stats.Estimate{"payload-rss": {Value: 300 << 20}, "vmm-overhead": {Value: 60 << 20}, "guest-resident": {Value: 240 << 20}}
	c := &comparison{Held: []heldInstance{{Target: "qemu/microvm", Level: "1cpu", Here: here}, {Target: "qemu/microvm", Level: "1cpu", Loaded: true, Here: here}}}
	g := memoryTable(c)
	if want := []string{"qemu/microvm", "after the load", "300 MiB", "", "240 MiB", "60.0 MiB", "", ""}; !slices.Equal(g.Rows[1], want) || len(g.Head) != len(want) {
		t.Errorf("%q, want %q", g.Rows[1], want)
	}
	c.Accels = map[string]string{"qemu/microvm": "tcg"}
	if g = memoryTable(c); g.Rows[0][0] != "qemu/microvm (emulated)" {
		t.Errorf("an emulated machine is named %q", g.Rows[0][0])
	}
	c.Held[1].Level = "1GiB"
	if g = memoryTable(c); g.Head[2] != "level" || g.Rows[1][2] != "1GiB" || len(g.Rows[0]) != len(g.Head) {
		t.Errorf("%q, %q", g.Head, g.Rows)
	}
}

// The headline says that a column is not of this machine, and every finding, once.
func TestHeadline(t *testing.T) {
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
		if got := headline(&comparison{Targets: c.targets, CannotHere: c.cannot, Findings: findings}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A published table stands beside this machine's numbers, and its ratios beside this
// machine's: each virtual machine by the host, and StratoVirt by QEMU. What was
// emulated is headed so.
func TestValuesAndRatios(t *testing.T) {
	between := func(ratio float64, v analysis.Verdict) analysis.Effect {
		return analysis.Effect{Ratio: ratio, Interval: stats.Interval{Low: 0.9 * ratio, High: 1.1 * ratio, Level: 0.95, Method: "bootstrap"}, Verdict: v}
	}
	here := func(v float64) stats.Estimate { return stats.Estimate{Value: v} }
	events := sample.Metric{Name: "events", Unit: sample.PerSecond}
	c := &comparison{
		Host: "host", Targets: []string{"host", "runc", "qemu/microvm", "stratovirt/microvm", "qemu/q35"}, Accels: map[string]string{"qemu/microvm": "kvm", "stratovirt/microvm": "kvm", "qemu/q35": "tcg"},
		Pairs: []pair{{Machine: "microvm", StratoVirt: "stratovirt/microvm", QEMU: "qemu/microvm"}, {Machine: "q35", Refused: "one was emulated"}},
		Rows: []comparedRow{
			{Table: tableCPU, Name: "1 thread", Metric: events, PublishedStratoVirt: 1200, PublishedQEMU: 1000,
				Here:   map[string]stats.Estimate{"host": here(1000), "runc": here(1000), "qemu/microvm": here(500), "stratovirt/microvm": here(400), "qemu/q35": here(50)},
				Ratios: map[string]analysis.Effect{"microvm": between(0.8, analysis.Slower)},
				ToHost: map[string]analysis.Effect{"qemu/microvm": between(0.5, analysis.Slower), "stratovirt/microvm": between(0.4, analysis.Open), "qemu/q35": between(0.05, analysis.NotComparable)}},
			{Table: tableDirect, Name: "rndrd", Metric: events, Here: map[string]stats.Estimate{"host": here(1000)}},
			{Table: tableFootprint, Name: "mapped", Metric: sample.Metric{Name: "mapped", Unit: sample.Bytes}, PublishedQEMU: 1 << 30, Here: map[string]stats.Estimate{"host": here(0)}},
		},
	}
	for name, c := range map[string]struct {
		got, head []string
		rows      [][]string
		want      []string
	}{
		"values": {valuesTable(c, tableCPU).Head, []string{"quantity", "host", "runc", "qemu/microvm", "stratovirt/microvm", "qemu/q35 (emulated)", "published StratoVirt", "published QEMU"},
			valuesTable(c, tableCPU).Rows, []string{"1 thread, events", "1000/s", "1000/s", "500/s", "400/s", "50.0/s", "1200/s", "1000/s"}},
		"nothing published": {valuesTable(c, tableDirect).Head, []string{"quantity", "host"}, valuesTable(c, tableDirect).Rows, []string{"rndrd, events", "1000/s"}},
		"zeros": {valuesTable(c, tableFootprint).Head, []string{"quantity", "host", "published StratoVirt", "published QEMU"},
			valuesTable(c, tableFootprint).Rows, []string{"mapped", "cut to 0", "cut to 0", "1.00 GiB"}},
		"ratios": {ratiosTable(c, tableCPU).Head, []string{"quantity", "qemu/microvm : host", "stratovirt/microvm : host", "qemu/q35 (emulated) : host", "StratoVirt : QEMU, microvm", "published StratoVirt : QEMU"},
			ratiosTable(c, tableCPU).Rows, []string{"1 thread, events", "0.500 ±10 %, slower", "0.400 ±10 %, open", "0.0500 ±10 %, not comparable", "0.800 ±10 %, slower", "1.20"}},
	} {
		if !slices.Equal(c.got, c.head) {
			t.Errorf("%s: head %q, want %q", name, c.got, c.head)
		}
		if len(c.rows) != 1 || !slices.Equal(c.rows[0], c.want) {
			t.Errorf("%s: %q, want %q", name, c.rows, c.want)
		}
	}
	if g := ratiosTable(c, tableDirect); len(g.Head) != 1 {
		t.Errorf("a table without ratios has the columns %q", g.Head)
	}
	c.Boots = []machineBoot{{Name: "qemu/q35"}, {Name: "qemu/microvm"}, {Name: "QEMU, published", Published: true}}
	for i, want := range []string{"qemu/q35 (emulated)", "qemu/microvm", "· QEMU, published"} {
		if got := bootTable(c).Rows[i][0]; got != want {
			t.Errorf("the boot of %s is named %q", want, got)
		}
	}
	tables := 0
	for _, g := range section(c).Tables {
		if g.Title == "Cpu" || g.Title == "Cpu: ratios" || g.Title == capital(string(tableDirect)) {
			tables++
		}
	}
	if tables != 3 {
		t.Errorf("%d tables of 3 are shown", tables)
	}
}
