package cores

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// madeUp is a machine of 16 CPUs on which one open file is shared with a contention, and
// everything else grows as the CPUs do.
func madeUp(blocks int) (analysis.Input, []study.Environment, map[string]hostinfo.CPUs) {
	const contention, coherency = 0.2, 0.01
	rng := rand.New(rand.NewPCG(1, 2))
	rate := sample.In(sample.SliceRate, sample.PerSecond)
	in := analysis.Input{Metrics: map[string][]sample.Metric{}, Blocks: blocks, Seed: 7}
	cpus := map[string]hostinfo.CPUs{}
	var levels []study.Environment
	for _, n := range []int{1, 2, 4, 8, 16} {
		name := fmt.Sprintf("%d-cpus", n)
		levels, cpus[name] = append(levels, study.Environment{Name: name, CPUSet: fmt.Sprintf("first-%d", n)}), hostinfo.CPUs{Threads: n, Cores: (n + 1) / 2}
		for _, w := range []string{onlyOne, ownFile, oneFile} {
			in.Metrics[w] = []sample.Metric{rate}
			group := w + "+" + name
			in.Cells = append(in.Cells, study.Cell{ID: "host/" + group, Target: "host", Workload: w, Group: group, Environment: name, Limits: levels[len(levels)-1], Copies: 1, Control: true})
		}
	}
	in.Data = analysis.NewData(in.Cells, 0)
	for block := range blocks {
		for _, c := range in.Cells {
			n := float64(cpus[c.Environment].Threads)
			speed := map[string]float64{onlyOne: 1, ownFile: n, oneFile: n / (1 + contention*(n-1) + coherency*n*(n-1))}[c.Workload]
			in.Data.Add(&sample.Record{Block: block, Cell: c.ID, Values: map[string][]float64{sample.SliceRate: {1e6 * speed * (1 + 0.002*rng.NormFloat64())}}})
		}
	}
	return in, levels, cpus
}

func TestLawsAndCauses(t *testing.T) {
	in, levels, cpus := madeUp(12)
	d := describe(in, analysis.Analyze(in).Tables, levels, cpus)
	if d.Least != 1 || d.Most != 16 || len(d.Curves) != 3 || len(d.Causes) != 1 {
		t.Fatalf("%d to %d CPUs, %d curves, %d causes", d.Least, d.Most, len(d.Curves), len(d.Causes))
	}
	shared := d.Curves[slices.IndexFunc(d.Curves, func(c curve) bool { return c.Workload == oneFile })]
	if law := shared.USL; law == nil || !law.Contention.Interval.Decides() || law.Contention.Value < 0.18 || law.Contention.Value > 0.22 || law.Coherency.Value < 0.008 || law.Coherency.Value > 0.012 {
		t.Errorf("the law of one open file: %+v", law)
	}
	c := d.Causes[0]
	for name, s := range map[string]step{"alone": c.Alone, "each": c.Each} {
		if s.Ratio < 0.99 || s.Ratio > 1.01 || certain(s) != "not shown to differ" && s.Interval.High-s.Interval.Low > 0.02 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if certain(c.File) != "less" {
		t.Errorf("one open file: %+v", c.File)
	}
	if s := section(d); len(s.Findings) == 0 || !strings.Contains(s.Findings[0], "439 on machines") || !strings.Contains(s.Findings[0], "in host on 16 CPUs, the largest cause is all processes on one open file: ") {
		t.Errorf("the published row: %q", s.Findings)
	}
	if rows := section(d).Tables[0].Rows; rows[4][2] != "16" || rows[4][3] != "8" {
		t.Errorf("CPUs and cores of the largest level: %q", rows[4])
	}
	if s := section(d); len(s.Figures) != 1 || !strings.Contains(strings.Join(s.Findings, " "), "all processes on one open file") {
		t.Errorf("%q", s.Findings)
	}
}

// One level says nothing; two give no law.
func TestFewLevels(t *testing.T) {
	in, levels, cpus := madeUp(6)
	tables := analysis.Analyze(in).Tables
	if d := describe(in, tables, levels[:1], cpus); len(d.Curves) != 0 {
		t.Errorf("%+v", d)
	}
	for _, c := range describe(in, tables, levels[:2], cpus).Curves {
		if c.USL != nil || len(c.Points) != 2 {
			t.Errorf("%s: %d points, law %v", c.Workload, len(c.Points), c.USL)
		}
	}
}

// What a table refuses has no numbers in the sentences, the causes, the laws and the figures.
func TestRefusedCurves(t *testing.T) {
	in, levels, cpus := madeUp(12)
	tables := analysis.Analyze(in).Tables
	refuse := func(group string) {
		i := slices.IndexFunc(tables, func(t analysis.Table) bool { return t.Group == group })
		tables[i].Refused = "The control drifted."
	}
	refuse(ownFile + "+16-cpus")
	d := describe(in, tables, levels, cpus)
	s := section(d)
	said := strings.Join(s.Findings, " ")
	if len(d.Causes) != 0 || !strings.Contains(said, "Nothing is claimed of "+ownFile+" in host, the causes in host. The control drifted.") || !strings.Contains(said, oneFile+" is ") || strings.Contains(said, ownFile+" is ") {
		t.Errorf("%d causes, %q", len(d.Causes), said)
	}
	for _, c := range d.Curves {
		if (c.USL == nil) != (c.Workload == ownFile) {
			t.Errorf("%s: law %v", c.Workload, c.USL)
		}
	}
	if len(s.Figures) != 1 || slices.ContainsFunc(s.Figures[0].Lines, func(l finding.Line) bool { return strings.HasPrefix(l.Name, ownFile) }) {
		t.Errorf("figures %+v", s.Figures)
	}
	in.Emulated = "QEMU TCG"
	s = section(describe(in, analysis.Analyze(in).Tables, levels, cpus))
	if len(s.Headline) != 0 || len(s.Figures) != 0 || len(s.Findings) != 1 {
		t.Errorf("on an emulated CPU: %q, %q, %d figures", s.Headline, s.Findings, len(s.Figures))
	}
	for _, row := range s.Tables[0].Rows {
		if row[5] != "1" && row[5] != quantity.Missing {
			t.Errorf("on an emulated CPU: %q", row)
		}
	}
}

// Another study's starts over CPUs are this section's, and its other limits are not.
func TestApplies(t *testing.T) {
	for _, c := range []struct {
		id    string
		level study.Environment
		want  bool
	}{
		{name, study.Environment{Name: "1-cpu", CPUSet: "0"}, true},
		{"mine", study.Environment{Name: "1-cpu", CPUSet: "0", Extra: true}, true},
		{"mine", study.Environment{Name: "1-cpu", CPUSet: "0"}, false},
		{"mine", study.Environment{Name: "small", Memory: 1 << 30, Extra: true}, false},
	} {
		if m := (store.Manifest{Study: study.Study{ID: c.id, Environments: []study.Environment{c.level}}}); applies(m) != c.want {
			t.Errorf("%s, %+v: want %t", c.id, c.level, c.want)
		}
	}
}
