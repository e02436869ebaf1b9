package report

import (
	"bytes"
	"encoding/csv"
	"slices"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/store"
)

// What an instance weighs is told apart by level, and by what lies behind it.
func TestWeightGrid(t *testing.T) {
	here := map[string]stats.Estimate{"payload-rss": {Value: 300 << 20}, "vmm-overhead": {Value: 60 << 20}, "guest-resident": {Value: 240 << 20}}
	c := &analysis.VMMClaims{Held: []analysis.VMMHeld{{Target: "qemu/microvm", Level: "1cpu", Here: here}, {Target: "qemu/microvm", Level: "1cpu", Loaded: true, Here: here}}}
	g := weightGrid(c)
	if want := []string{"qemu/microvm", "after the load", "300 MiB", "", "240 MiB", "60.0 MiB", "", ""}; !slices.Equal(g.Rows[1], want) || len(g.Head) != len(want) {
		t.Errorf("%q, want %q", g.Rows[1], want)
	}
	c.Accels = map[string]string{"qemu/microvm": "tcg"}
	if g = weightGrid(c); g.Rows[0][0] != "qemu/microvm (emulated)" {
		t.Errorf("an emulated machine is named %q", g.Rows[0][0])
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

// A published table stands beside this machine's numbers, and its ratios beside this
// machine's: each virtual machine by the host, and StratoVirt by QEMU. What was
// emulated is headed so.
func TestVMMGrids(t *testing.T) {
	between := func(ratio float64, v analysis.Verdict) analysis.Effect {
		return analysis.Effect{Ratio: ratio, Interval: stats.Interval{Low: 0.9 * ratio, High: 1.1 * ratio, Level: 0.95, Method: "bootstrap"}, Verdict: v}
	}
	here := func(v float64) stats.Estimate { return stats.Estimate{Value: v} }
	events := sample.Metric{Name: "events", Unit: sample.PerSecond}
	c := &analysis.VMMClaims{
		Host: "host", Targets: []string{"host", "runc", "qemu/microvm", "stratovirt/microvm", "qemu/q35"}, Accels: map[string]string{"qemu/microvm": "kvm", "stratovirt/microvm": "kvm", "qemu/q35": "tcg"},
		Pairs: []analysis.VMMPair{{Machine: "microvm", StratoVirt: "stratovirt/microvm", QEMU: "qemu/microvm"}, {Machine: "q35", Refused: "one was emulated"}},
		Rows: []analysis.VMMRow{
			{Table: analysis.VMMCPU, Name: "1 thread", Metric: events, PublishedStratoVirt: 1200, PublishedQEMU: 1000,
				Here:   map[string]stats.Estimate{"host": here(1000), "runc": here(1000), "qemu/microvm": here(500), "stratovirt/microvm": here(400), "qemu/q35": here(50)},
				Ratios: map[string]analysis.Effect{"microvm": between(0.8, analysis.Slower)},
				ToHost: map[string]analysis.Effect{"qemu/microvm": between(0.5, analysis.Slower), "stratovirt/microvm": between(0.4, analysis.Open), "qemu/q35": between(0.05, analysis.NotComparable)}},
			{Table: analysis.VMMDirect, Name: "rndrd", Metric: events, Here: map[string]stats.Estimate{"host": here(1000)}},
			{Table: analysis.VMMFootprint, Name: "mapped", Metric: sample.Metric{Name: "mapped", Unit: sample.Bytes}, PublishedQEMU: 1 << 30, Here: map[string]stats.Estimate{"host": here(0)}},
		},
	}
	for name, c := range map[string]struct {
		got, head []string
		rows      [][]string
		want      []string
	}{
		"values": {vmmGrid(c, analysis.VMMCPU).Head, []string{"quantity", "host", "runc", "qemu/microvm", "stratovirt/microvm", "qemu/q35 (emulated)", "published StratoVirt", "published QEMU"},
			vmmGrid(c, analysis.VMMCPU).Rows, []string{"1 thread, events", "1000/s", "1000/s", "500/s", "400/s", "50.0/s", "1200/s", "1000/s"}},
		"nothing published": {vmmGrid(c, analysis.VMMDirect).Head, []string{"quantity", "host"}, vmmGrid(c, analysis.VMMDirect).Rows, []string{"rndrd, events", "1000/s"}},
		"zeros": {vmmGrid(c, analysis.VMMFootprint).Head, []string{"quantity", "host", "published StratoVirt", "published QEMU"},
			vmmGrid(c, analysis.VMMFootprint).Rows, []string{"mapped", "cut to 0", "cut to 0", "1.00 GiB"}},
		"ratios": {vmmRatios(c, analysis.VMMCPU).Head, []string{"quantity", "qemu/microvm : host", "stratovirt/microvm : host", "qemu/q35 (emulated) : host", "StratoVirt : QEMU, microvm", "published StratoVirt : QEMU"},
			vmmRatios(c, analysis.VMMCPU).Rows, []string{"1 thread, events", "0.500 ±10 %, slower", "0.400 ±10 %, open", "0.0500 ±10 %, not comparable", "0.800 ±10 %, slower", "1.20"}},
	} {
		if !slices.Equal(c.got, c.head) {
			t.Errorf("%s: head %q, want %q", name, c.got, c.head)
		}
		if len(c.rows) != 1 || !slices.Equal(c.rows[0], c.want) {
			t.Errorf("%s: %q, want %q", name, c.rows, c.want)
		}
	}
	if g := vmmRatios(c, analysis.VMMDirect); len(g.Head) != 1 {
		t.Errorf("a table without ratios has the columns %q", g.Head)
	}
	c.Boots = []analysis.VMMBoot{{Name: "qemu/q35"}, {Name: "qemu/microvm"}, {Name: "QEMU, published", Published: true}}
	for i, want := range []string{"qemu/q35 (emulated)", "qemu/microvm", "· QEMU, published"} {
		if got := bootGrid(c).Rows[i][0]; got != want {
			t.Errorf("the boot of %s is named %q", want, got)
		}
	}
	tables := 0
	for _, g := range vmmSection(c).Tables {
		if g.Title == "Cpu" || g.Title == "Cpu: ratios" || g.Title == capital(string(analysis.VMMDirect)) {
			tables++
		}
	}
	if tables != 3 {
		t.Errorf("%d tables of 3 are shown", tables)
	}
}

// What was asked of virtual machines stands among the facts of a run, where something
// was.
func TestGuestsAreAFact(t *testing.T) {
	for want, guest := range map[string]*driver.Guest{"": nil, "none": {}, "asked of virtual machines: memory 1GiB, root as a disk": {Memory: 1 << 30, Disk: true}} {
		got := map[string]string{}
		for _, f := range facts(Input{Manifest: store.Manifest{Guest: guest}}) {
			got[f.Name] = f.Value
		}
		if asked, ok := got["guests"]; ok != (guest != nil && guest.Memory > 0) || ok && asked != want {
			t.Errorf("%v is told as %q", guest, asked)
		}
	}
}

// Each line of a virtual machine says in the CSV what ran its CPU.
func TestCSVTellsAcceleration(t *testing.T) {
	table := analysis.Table{Rows: []analysis.Row{{Cell: "host/boot"}, {Cell: "qemu/q35/boot", Accel: "tcg"}}}
	var out bytes.Buffer
	if err := CSV(&out, Input{Claims: analysis.Claims{Tables: []analysis.Table{table}}}); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(lines) != 3 {
		t.Fatalf("%q: %v", lines, err)
	}
	for i, want := range []string{"accel", "", "tcg"} {
		if got := lines[i][len(lines[i])-1]; got != want {
			t.Errorf("line %d ends with %q, want %q", i, got, want)
		}
	}
}
