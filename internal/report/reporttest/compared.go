package reporttest

import (
	"math"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// Compared is the survey twice, the second time with another kernel, as a user, with
// one target slower, one that cannot start a workload any more, and one less: every verdict
// occurs.
func Compared() report.Input {
	a, b := Survey(), Survey()
	b.Manifest.ID, b.Manifest.Host.Root = "20261122-090000-survey", false
	a.Manifest.Cells = append(a.Manifest.Cells, study.Cell{ID: "sysbox/start", Target: "sysbox", Workload: "start", Group: "start"})
	b.Manifest.LeftOut["sysbox"], b.Manifest.Host.Mitigations["meltdown"] = "sysbox-runc is not installed", "Mitigation: PTI"
	runc := b.Manifest.Targets["runc"]
	runc.Version = "1.3.0"
	b.Manifest.Targets["runc"] = runc
	in := report.Input{Manifest: a.Manifest, Others: append(a.Others, b.Manifest)}
	in.Claims = analysis.Claims{Alpha: a.Claims.Alpha, Margin: a.Claims.Margin, Trials: 2 * a.Claims.Trials, Planned: 2 * a.Claims.Planned, Failures: 2 * a.Claims.Failures}
	lost := analysis.FailedCell{Run: b.Manifest.ID, Cell: "crun/memory", Label: "crun", Group: "memory", Failed: 20, Of: 20,
		Failure: &sample.Failure{Fault: sample.FaultTarget, Phase: "start", ExitCode: new(1), Message: "the payload never acted: the runtime ended first; see its messages", Stderr: "crun: cannot find libseccomp.so.2\n"}}
	in.Claims.Failures += lost.Failed
	in.Claims.Failed = slices.Clone(a.Claims.Failed)
	for _, f := range b.Claims.Failed {
		f.Run = b.Manifest.ID
		in.Claims.Failed = append(in.Claims.Failed, f)
	}
	in.Claims.Failed = append(in.Claims.Failed, lost)
	for _, t := range a.Claims.Tables {
		c := analysis.Comparison{With: b.Manifest.ID, Group: t.Group, Workload: t.Workload, Metric: t.Metric, Primary: t.Primary, Noise: 0.01}
		for _, r := range t.Rows {
			switch {
			case r.Summary.N > 0 && r.Cell == lost.Cell:
				c.Rows = append(c.Rows, analysis.Change{Cell: r.Cell, Target: r.Target, Label: r.Label, A: r.Summary, B: analysis.Summary{Failed: lost.Failed, Interval: stats.None(0)}})
			case r.Summary.N > 0:
				c.Rows = append(c.Rows, changed(t, r))
			}
		}
		in.Claims.Comparisons = append(in.Claims.Comparisons, c)
	}
	differs := func(what, x, y string) {
		in.Claims.Surroundings = append(in.Claims.Surroundings, analysis.Surrounding{RunA: a.Manifest.ID, RunB: b.Manifest.ID, What: what, A: x, B: y, Advice: "measure both alike"})
	}
	differs("kernel", "6.18.0 #1 SMP PREEMPT_DYNAMIC", "6.19.2 #1 SMP PREEMPT_DYNAMIC")
	differs("user", "root", "not root")
	differs("version of runc", "1.1.5", "1.3.0")
	return in
}

// changes are ratios of B to A by target, in every workload of the survey.
var changes = map[string]float64{"native": 1, "runc": 1.25, "crun": 0.8, "youki": 1.001, "runsc": 1.01}

func changed(t analysis.Table, r analysis.Row) analysis.Change {
	c := analysis.Change{Cell: r.Cell, Target: r.Target, Label: r.Label, Control: r.Control, AA: r.AA, A: r.Summary, B: r.Summary, Raw: 1.02}
	if r.Control {
		return c
	}
	ratio, half := changes[r.Target], 0.004
	if r.AA {
		ratio = 1
	}
	if t.Group == "memory" {
		half = 0.06
	}
	e := &analysis.Effect{Ratio: ratio, Blocks: 20, P: 0.01, Interval: stats.Interval{Low: ratio * math.Exp(-half), High: ratio * math.Exp(half), Level: 0.99, Method: stats.MethodRank}}
	if t.Primary {
		judge(e, t.Metric)
		e.Size = strings.TrimPrefix(e.Size, "-")
	}
	if t.Group == "disk" {
		e.Verdict, e.Size, e.Bound, e.Why = analysis.NotComparable, "", "", "The control itself changed by +31 % between the runs, a factor of 1.31; from 1.25 on the machine was not the same. Measure both in one interleaved run."
	}
	c.Effect = e
	return c
}
