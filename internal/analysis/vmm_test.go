package analysis_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/published"
)

// vmmRun is a run of three targets in which StratoVirt is a fifth slower than
// QEMU, and QEMU a tenth of the host's speed.
func vmmRun(t *testing.T, targets ...string) *analysis.VMMClaims {
	t.Helper()
	d, err := published.LoadAs[*published.StratoVirtQEMU]("stratovirt-vs-qemu")
	if err != nil {
		t.Fatal(err)
	}
	speed := map[string]float64{"host": 1000, "qemu/microvm": 100, "stratovirt/microvm": 80}
	var cells []study.Cell
	for _, target := range targets {
		for _, w := range []string{"boot", "cpu-1"} {
			cells = append(cells, study.Cell{ID: target + "/" + w, Target: target, Workload: w, Group: w, Copies: 1, Control: target == "host"})
		}
	}
	data := analysis.NewData(cells, 0)
	for block := range 8 {
		drift := 1 + 0.1*float64(block) // of the machine: it must fall out of every ratio
		for i, c := range cells {
			values := map[string][]float64{"events": {speed[c.Target] * drift}}
			if c.Workload == "boot" {
				values = map[string][]float64{"vmm": {0.01}, "kernel": {0.11}, "init": {0.61}, "ready": {0.71}}
			}
			data.Add(&sample.Record{Seq: block*len(cells) + i, Block: block, Cell: c.ID, Values: values})
		}
	}
	return analysis.VMMStudy(analysis.Input{Cells: cells, Data: data, Seed: 1}, "host", d)
}

func TestVMMStudyPairsMachinesWithinBlocks(t *testing.T) {
	c := vmmRun(t, "host", "qemu/microvm", "stratovirt/microvm")
	if c.StratoVirt != "stratovirt/microvm" || c.QEMU != "qemu/microvm" {
		t.Fatalf("compared are %q and %q", c.StratoVirt, c.QEMU)
	}
	for _, r := range c.Rows {
		if r.Table != analysis.VMMCPU || r.Name != "1 threads" || r.Metric.Name != "events" {
			continue
		}
		if r.Ratio == nil || math.Abs(r.Ratio.Value-0.8) > 1e-9 || math.Abs(r.ToHost["qemu/microvm"].Value-0.1) > 1e-9 {
			t.Errorf("StratoVirt by QEMU %+v, QEMU by host %+v; want 0.8 and 0.1", r.Ratio, r.ToHost["qemu/microvm"])
		}
		if got := r.PublishedRatio(); math.Abs(got-1256.39/1239.725) > 1e-9 {
			t.Errorf("published ratio %v", got)
		}
		return
	}
	t.Error("no row of the CPU with one thread")
}

func TestVMMStudyTakesBootsApart(t *testing.T) {
	c := vmmRun(t, "host", "qemu/microvm")
	if c.StratoVirt != "" || len(c.Boots) != 3 {
		t.Fatalf("StratoVirt is %q, boots are %+v", c.StratoVirt, c.Boots)
	}
	b := c.Boots[0]
	sum := 0.
	for _, p := range b.Phases {
		sum += p.Seconds
	}
	if b.Name != "qemu/microvm" || math.Abs(sum-0.71) > 1e-9 || math.Abs(b.Total.Value-0.71) > 1e-9 {
		t.Errorf("the phases of %s sum to %v, the total is %v; want 0.71", b.Name, sum, b.Total.Value)
	}
	if q := c.Boots[2]; fmt.Sprintf("%.3f", q.Total.Value) != "6.566" {
		t.Errorf("%s takes %.3f s by its ten cells", q.Name, q.Total.Value)
	}
}

// The published claims by their own cells: which hold was computed by hand.
func TestVMMPublishedClaims(t *testing.T) {
	want := []analysis.ClaimVerdict{analysis.BorneOut, analysis.BorneOut, analysis.BorneOut, analysis.BorneOut, analysis.BorneOut, analysis.BorneOut}
	for i, c := range vmmRun(t, "host", "qemu/microvm").Claims {
		t.Logf("[%s] %s %s", c.Verdict, c.Text, c.Computed)
		if c.Verdict != want[i] {
			t.Errorf("%q is %q (%s), want %q", c.Text, c.Verdict, c.Computed, want[i])
		}
	}
}
