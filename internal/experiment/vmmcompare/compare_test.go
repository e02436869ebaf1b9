package vmmcompare

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

// kvm are the accelerations of machines that all ran on the CPU.
var kvm = map[string]string{"qemu/microvm": "kvm", "qemu/q35": "kvm", "stratovirt/microvm": "kvm", "stratovirt/q35": "kvm"}

// monitors is a run of so many blocks in which StratoVirt is a fifth slower than
// QEMU and needs a fourth of its memory, and QEMU a tenth of the host's speed.
func monitors(t *testing.T, blocks int, accels map[string]string, targets ...string) *comparison {
	t.Helper()
	d := publication(t)
	speed := map[string]float64{"host": 1000, "qemu/microvm": 100, "stratovirt/microvm": 80, "qemu/q35": 50, "stratovirt/q35": 40}
	memory := map[string]float64{"host": 1, "qemu/microvm": 100, "stratovirt/microvm": 25, "qemu/q35": 200, "stratovirt/q35": 50}
	var cells []study.Cell
	for _, target := range targets {
		for _, w := range []string{"boot", "cpu-1", "footprint"} {
			cells = append(cells, study.Cell{ID: target + "/" + w, Target: target, Workload: w, Group: w, Copies: 1, Control: target == "host"})
		}
	}
	data := analysis.NewData(cells, 0)
	for block := range blocks {
		drift := 1 + 0.1*float64(block) // of the machine: it must fall out of every ratio
		for i, c := range cells {
			values := map[string][]float64{"events": {speed[c.Target] * drift}, "payload-rss": {memory[c.Target]}}
			if c.Workload == "boot" {
				values = map[string][]float64{"vmm": {0.01}, "kernel": {0.11}, "init": {0.61}, "ready": {0.71}, "guest-kernel": {0.55}, "guest-agent": {0.6}, "off": {0.9}}
			}
			data.Add(&sample.Record{Seq: block*len(cells) + i, Block: block, Cell: c.ID, Values: values})
		}
	}
	metric := func(name string) []sample.Metric { return []sample.Metric{{Name: name}} }
	in := analysis.Input{Cells: cells, Data: data, Seed: 1, Blocks: blocks, Accels: accels,
		Metrics: map[string][]sample.Metric{"boot": metric("ready"), "cpu-1": metric("events"), "footprint": metric("payload-rss")}}
	c, err := describe(in, analysis.Analyze(in).Tables, "host", nil, d)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// row is the CPU's with one thread.
func row(t *testing.T, c *comparison) comparedRow {
	t.Helper()
	for _, r := range c.Rows {
		if r.Table == tableCPU && r.Name == "1 thread" && r.Metric.Name == "events" {
			return r
		}
	}
	t.Fatal("no row of the CPU with one thread")
	return comparedRow{}
}

func TestPairsMachinesWithinBlocks(t *testing.T) {
	c := monitors(t, 8, kvm, "host", "qemu/microvm", "qemu/q35", "stratovirt/microvm", "stratovirt/q35")
	r := row(t, c)
	if len(r.Ratios) != 2 || math.Abs(r.Ratios["microvm"].Ratio-0.8) > 1e-9 || math.Abs(r.Ratios["q35"].Ratio-0.8) > 1e-9 || math.Abs(r.ToHost["qemu/microvm"].Ratio-0.1) > 1e-9 {
		t.Errorf("StratoVirt by QEMU %+v, QEMU by host %+v; want 0.8, 0.8 and 0.1", r.Ratios, r.ToHost["qemu/microvm"])
	}
	if !r.Ratios["microvm"].Verdict.Shown() || r.Ratios["microvm"].Interval.Level != 1-0.05/2 {
		t.Errorf("%+v is not judged with the other pair", r.Ratios["microvm"])
	}
	if got := r.PublishedRatio(); math.Abs(got-1256.39/1239.725) > 1e-9 {
		t.Errorf("published ratio %v", got)
	}
}

// Machine types are never crossed, nor a guest on the CPU with an emulated one.
func TestPairsLikeWithLike(t *testing.T) {
	crossed := monitors(t, 8, kvm, "host", "qemu/q35", "stratovirt/microvm")
	if len(crossed.Pairs) != 0 || len(row(t, crossed).Ratios) != 0 || !crossed.Measured("stratovirt") {
		t.Errorf("pairs %+v of two machine types", crossed.Pairs)
	}
	for name, accel := range map[string]string{"qemu/microvm": "tcg", "qemu/q35": ""} {
		accels := maps.Clone(kvm)
		accels[name] = accel
		machine := strings.TrimPrefix(name, "qemu/")
		c := monitors(t, 8, accels, "host", name, "stratovirt/"+machine)
		if len(c.Pairs) != 1 || c.Pairs[0].Refused == "" || len(row(t, c).Ratios) != 0 {
			t.Errorf("%s under %q: %+v, %+v", name, accel, c.Pairs, row(t, c).Ratios)
		}
		if !strings.Contains(strings.Join(c.Findings, "\n"), "never compared") || c.Claims[0].Here[0].Verdict != finding.Refused {
			t.Errorf("%s under %q: nothing says why there is no ratio: %q, %+v", name, accel, c.Findings, c.Claims[0].Here)
		}
	}
}

// An emulated machine beside the host is told once, and without a claim.
func TestEmulatedMachinesAreToldOnce(t *testing.T) {
	c := monitors(t, 8, map[string]string{"qemu/microvm": "tcg"}, "host", "qemu/microvm")
	told := 0
	for _, f := range c.Findings {
		if strings.Contains(f, "host") {
			told++
			if !strings.Contains(f, "no claim") || !strings.Contains(f, "0.1 in cpu (1 thread, events)") {
				t.Errorf("%q", f)
			}
		}
	}
	if told != 1 {
		t.Errorf("%d of the findings speak of the host: %q", told, c.Findings)
	}
}

// What the run itself answers goes by the interval.
func TestClaimsHereTakeAnInterval(t *testing.T) {
	for blocks, want := range map[int]finding.Verdict{8: finding.BorneOut, 2: finding.Open} {
		c := monitors(t, blocks, kvm, "host", "qemu/microvm", "stratovirt/microvm")
		if here := c.Claims[0].Here; len(here) != 1 || here[0].Verdict != want {
			t.Errorf("%d blocks: %+v, want %q", blocks, here, want)
		}
		undecided := strings.Contains(strings.Join(c.Findings, "\n"), "is open")
		if undecided != (want == finding.Open) {
			t.Errorf("%d blocks: %q", blocks, c.Findings)
		}
	}
}

func TestTakesBootsApart(t *testing.T) {
	c := monitors(t, 8, kvm, "host", "qemu/microvm")
	if c.Measured("stratovirt") || len(c.Boots) != 3 {
		t.Fatalf("boots are %+v", c.Boots)
	}
	b := c.Boots[0]
	sum := 0.
	for _, p := range b.Phases {
		sum += p.Seconds
	}
	if b.Name != "qemu/microvm" || math.Abs(sum-0.71) > 1e-9 || math.Abs(b.Total.Value-0.71) > 1e-9 {
		t.Errorf("the phases of %s sum to %v, the total is %v; want 0.71", b.Name, sum, b.Total.Value)
	}
	if b.Off != 0.9 {
		t.Errorf("it was off after %v s", b.Off)
	}
	if len(b.Own) != 2 || b.Own[0].Seconds != 0.55 || math.Abs(b.Own[1].Seconds-0.05) > 1e-9 {
		t.Errorf("by its own clock: %+v", b.Own)
	}
	if q := c.Boots[2]; fmt.Sprintf("%.3f", q.Total.Value) != "6.566" {
		t.Errorf("%s takes %.3f s by its ten cells", q.Name, q.Total.Value)
	}
}

// The published claims by their own cells: which hold was computed by hand.
func TestPublishedClaims(t *testing.T) {
	want := map[string]finding.Verdict{
		"Both are about equal in random memory access": finding.NotBorne, // 7 % apart at 1 and 4 KiB
		"40 MB of files are as fast as 20 MB":          finding.Open,
	}
	for _, c := range monitors(t, 8, kvm, "host", "qemu/microvm").Claims {
		t.Logf("[%s] %s %s", c.Verdict, c.Text, c.Computed)
		verdict := cmp.Or(want[c.Text], finding.BorneOut)
		delete(want, c.Text)
		if c.Verdict != verdict {
			t.Errorf("%q is %q (%s), want %q", c.Text, c.Verdict, c.Computed, verdict)
		}
	}
	if len(want) > 0 {
		t.Errorf("not among the claims: %v", want)
	}
}

// A ratio of monitors whose guests have two kernels would be one of the kernels.
func TestPairsOfTwoKernels(t *testing.T) {
	targets := []string{"qemu/microvm", "stratovirt/microvm"}
	for _, c := range []struct {
		kernels map[string]string
		refused bool
	}{
		{nil, false}, // a run of an earlier version
		{map[string]string{"qemu/microvm": "sha256:1", "stratovirt/microvm": "sha256:1"}, false},
		{map[string]string{"qemu/microvm": "sha256:1", "stratovirt/microvm": "sha256:2"}, true},
	} {
		if got := pairsOf(targets, kvm, c.kernels); len(got) != 1 || strings.Contains(got[0].Refused, "--kernel") != c.refused {
			t.Errorf("%v: %+v", c.kernels, got)
		}
	}
}
