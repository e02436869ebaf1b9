package analysis_test

import (
	"math"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/published"
)

// trimRun is eight blocks of boots in which every stretch of the trimmed arm is
// four times as fast, on a machine that gets slower.
func trimRun(t *testing.T, proof string, tables ...analysis.Table) *analysis.TrimClaims {
	t.Helper()
	d, err := published.LoadAs[*published.ContainerVMTrim]("container-vm-trim")
	if err != nil {
		t.Fatal(err)
	}
	var cells []study.Cell
	for _, target := range []string{"vm/stock", "vm/trimmed"} {
		cells = append(cells, study.Cell{ID: target + "/boot", Target: target, Workload: "boot", Group: "boot", Copies: 1, Control: target == "vm/stock"})
	}
	data := analysis.NewData(cells, 0)
	for block := range 8 {
		for i, c := range cells {
			scale := 1 + 0.1*float64(block)
			if i == 1 {
				scale /= 4
			}
			values := map[string][]float64{}
			for metric, at := range map[string]float64{"kernel-byte": 1, "kernel": 1.2, "kernel-up": 3, "init": 3.2, "root": 5, "modules": 9, "docker0-up": 20, "engine": 22, "ready": 30, "cpu": 40} {
				values[metric] = []float64{at * scale}
			}
			data.Add(&sample.Record{Seq: 2*block + i, Block: block, Cell: c.ID, Values: values})
		}
	}
	return analysis.TrimStudy(analysis.TrimInput{
		Input: analysis.Input{Cells: cells, Data: data, Seed: 1}, Control: "vm/stock", Published: d, Tables: tables,
		Parts: map[string]map[string]string{
			"vm/stock":   {"kernel-bytes": "12000000", "initrd-bytes": "20000000", "proof 01 docker run": "ok"},
			"vm/trimmed": {"kernel-bytes": "5000000", "initrd-bytes": "0", "proof 01 docker run": "ok", "proof 02 crun": proof},
		},
	})
}

func TestTrimStretchesArePairedWithinBlocks(t *testing.T) {
	c := trimRun(t, "ok")
	checked := 0
	for _, s := range c.Spans {
		e, ok := s.Speedup["vm/trimmed"]
		if !ok {
			t.Errorf("%s has no speedup", s.Name)
			continue
		}
		checked++
		if math.Abs(e.Value-4) > 1e-9 || math.Abs(e.Interval.High-4) > 1e-9 {
			t.Errorf("%s: %+v, want 4", s.Name, e)
		}
		if s.Name == "total" && math.Abs(s.PublishedSpeedup()-1.2525) > 1e-3 {
			t.Errorf("published total %v", s.PublishedSpeedup())
		}
	}
	if checked < 8 {
		t.Errorf("only %d stretches", checked)
	}
	if all := strings.Join(c.Findings, "\n"); !strings.Contains(all, "4.00 times as fast") || !strings.Contains(all, "each passes it") {
		t.Errorf("findings:\n%s", all)
	}
}

func TestAFailedProofIsTold(t *testing.T) {
	if all := strings.Join(trimRun(t, "failed: no such device").Findings, "\n"); !strings.Contains(all, "vm/trimmed FAILS the proof: crun") {
		t.Errorf("findings:\n%s", all)
	}
}

// The published table's own numbers give the published ratios, and this run's are
// held against them.
func TestPublishedTrimClaims(t *testing.T) {
	for _, claim := range trimRun(t, "ok").Claims {
		if claim.Verdict != analysis.BorneOut {
			t.Errorf("%s %s: %s", claim.Text, claim.Computed, claim.Verdict)
		}
		want := analysis.BorneOut
		if strings.Contains(claim.Text, "initrd") {
			want = analysis.NotBorne // four times is less than the published 5.43
		}
		if len(claim.Here) != 1 || claim.Here[0].Verdict != want {
			t.Errorf("%s here: %+v, want %s", claim.Text, claim.Here, want)
		}
	}
}

// Of a run that was disturbed nothing is claimed.
func TestTrimRefused(t *testing.T) {
	c := trimRun(t, "ok", analysis.Table{Primary: true, Refused: "The machine was busy."})
	if !strings.Contains(c.Findings[0], "claims nothing of the machine: The machine was busy.") {
		t.Errorf("findings: %q", c.Findings[0])
	}
	for _, claim := range c.Claims {
		if len(claim.Here) != 1 || claim.Here[0].Verdict != analysis.RefusedHere || claim.Verdict != analysis.BorneOut {
			t.Errorf("%s: %s, here %+v", claim.Text, claim.Verdict, claim.Here)
		}
	}
}
