package interference

import (
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

// What is lost next to neighbours is told against the level without any, what a knob gives
// back against the same neighbours without it, and what it costs them.
func TestLossAndRelief(t *testing.T) {
	in, levels := madeUp(12)
	d := describe(in, analysis.Analyze(in).Tables, levels)
	if d.Alone != "alone" || len(d.Losses) != 1 || len(d.Relief) != 1 {
		t.Fatalf("%+v", d)
	}
	if l := d.Losses[0]; l.Level != "busy" || l.Verdict != analysis.Slower || l.Kept < 0.39 || l.Kept > 0.41 {
		t.Errorf("loss %+v", l)
	}
	if r := d.Relief[0]; r.Noise != "busy" || r.GivenVerdict != analysis.Faster || r.Neighbours < 0.24 || r.Neighbours > 0.26 {
		t.Errorf("relief %+v", r)
	}
	if s := section(d); !strings.Contains(s.Findings[0], "idle gives most back") {
		t.Errorf("%q", s.Findings)
	}
}

// Where nothing is decided the sentence counts what is open and what is refused, and what is
// refused has no numbers.
func TestNothingIsDecided(t *testing.T) {
	in, levels := madeUp(2) // too few blocks
	if s := section(describe(in, analysis.Analyze(in).Tables, levels)); s.Findings[0] != "Next to the neighbours of busy no loss is decided: 1 open and 0 refused of 1 comparison." {
		t.Errorf("%q", s.Findings)
	}
	in, levels = madeUp(12)
	tables := analysis.Analyze(in).Tables
	for i := range tables {
		tables[i].Refused = "The control drifted."
	}
	d := describe(in, tables, levels)
	s := section(d)
	if s.Findings[0] != "Next to the neighbours of busy no loss is decided: 0 open and 1 refused of 1 comparison." {
		t.Errorf("%q", s.Findings)
	}
	if r := d.Relief[0]; r.Neighbours != 0 || len(s.Figures) != 0 {
		t.Errorf("%+v, %d figures", r, len(s.Figures))
	}
	for _, table := range s.Tables {
		for _, row := range table.Rows {
			if text := strings.Join(row, " "); strings.ContainsAny(text, "123456789%") && !strings.Contains(text, "dhrystone2") || strings.Contains(text, "%") {
				t.Errorf("numbers of what is refused: %q", row)
			}
		}
	}
	d.Losses = append(d.Losses, loss{Level: "busy", Verdict: analysis.Same})
	if got := sentence(d, "busy"); got != "Next to the neighbours of busy no loss is shown: 0 open and 1 refused of 2 comparisons." {
		t.Errorf("%q", got)
	}
}

// madeUp is a workload that neighbours take most from, and cpu.idle gives most back to.
func madeUp(blocks int) (analysis.Input, []study.Environment) {
	busy := study.Load{Kind: "unix-dhrystone2", Instances: study.PerCPU}
	idle := busy
	idle.Idle = true
	levels := []study.Environment{{Name: "alone"}, {Name: "busy", Load: &busy}, {Name: "idle", Load: &idle}}
	rate := map[string]float64{"alone": 1000, "busy": 400, "idle": 950}
	load := map[string]float64{"busy": 2000, "idle": 500}
	in := analysis.Input{Metrics: map[string][]sample.Metric{"cpu": {sample.In(sample.SliceRate, sample.PerSecond)}}, Blocks: blocks, Seed: 7}
	for _, l := range levels {
		group := "cpu+" + l.Name
		in.Cells = append(in.Cells, study.Cell{ID: "host/" + group, Target: "host", Workload: "cpu", Group: group, Environment: l.Name, Limits: l, Copies: 1, Control: true})
	}
	in.Data = analysis.NewData(in.Cells, 0)
	for block := range blocks {
		for i, c := range in.Cells {
			values := map[string][]float64{sample.SliceRate: {rate[c.Environment] + float64((block*7+i*3)%5)}}
			if load[c.Environment] > 0 {
				values[sample.BesideRate] = []float64{load[c.Environment] + float64(block%3)}
			}
			in.Data.Add(&sample.Record{Block: block, Cell: c.ID, Values: values})
		}
	}
	return in, levels
}
