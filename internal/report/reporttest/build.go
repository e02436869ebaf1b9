package reporttest

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// builder is a report's input that is being made.
type builder report.Input

func manifest(id string, view study.View, targets []string, blocks int) store.Manifest {
	m := store.Manifest{
		Schema: store.SchemaVersion, ID: "20261121-083600-" + id, Created: time.Date(2026, 11, 21, 8, 36, 0, 0, time.UTC), Tool: "0.1.0",
		Study: study.Study{ID: id, Targets: targets, Control: targets[0], Blocks: blocks, Margin: 0.02, Alpha: 0.05, Timeout: time.Minute, View: view},
		Seed:  42, Metrics: map[string][]sample.Metric{}, Targets: map[string]driver.Facts{}, LeftOut: map[string]string{},
		Image:   "sha256:9f2c5f0d0a4bb2c3d7e0d65d5b1b2f1f0f3b7c27f0e4f6f5d2f3a1b0c9d8e7f6",
		Command: []string{"tare", "run", id},
		Host: hostinfo.Host{
			Hostname: "lab", OS: "Debian GNU/Linux 12 (bookworm)", Kernel: "6.18.0", KernelBuild: "#1 SMP PREEMPT_DYNAMIC", Arch: "amd64",
			CPU: "AMD EPYC 7B13", CPUs: 2, Cores: 1, Memory: 24 << 30, Virtualization: "kvm", Cgroup: "hybrid", Clocksource: "kvm-clock",
			BootID: "6f1c0f4e-2a57-4a83-9b0c-0c5f4c3b2a19", Root: true,
			Mitigations: map[string]string{"spectre_v2": "Mitigation: Retpolines", "meltdown": "Not affected"},
		},
	}
	versions := map[string]driver.Facts{
		"runc":  {Version: "1.1.5", Path: "/usr/sbin/runc", Digest: "sha256:11aa"},
		"crun":  {Version: "1.8.1", Path: "/usr/bin/crun", Digest: "sha256:22bb"},
		"youki": {Version: "0.7.0", Path: "/usr/local/bin/youki", Digest: "sha256:33cc"},
		"runsc": {Version: "release-20260701", Path: "/usr/local/bin/runsc", Digest: "sha256:44dd", Notes: map[string]string{"platform": "systrap"}},
	}
	for _, t := range targets {
		m.Targets[t] = versions[t]
	}
	return m
}

// add makes one group: a table for each metric, with the control's A/A twin.
func (b *builder) add(workload string, targets []string, metrics []metric, blocks int) {
	m := &b.Manifest
	m.Study.Workloads = append(m.Study.Workloads, study.Workload{Name: workload, Kind: workload})
	for i, t := range targets {
		m.Cells = append(m.Cells, study.Cell{ID: t + "/" + workload, Target: t, Workload: workload, Group: workload, Copies: 1, Control: i == 0})
	}
	m.Cells = append(m.Cells, study.Cell{ID: targets[0] + "~aa" + "/" + workload, Target: targets[0], Workload: workload, Group: workload, Copies: 1, AA: true})
	lost := map[string]int{} // a trial that failed gave no metric at all
	first := len(b.Claims.Tables)
	for _, x := range metrics {
		m.Metrics[workload] = append(m.Metrics[workload], x.Metric)
		b.Claims.Tables = append(b.Claims.Tables, table(workload, targets, x, blocks, lost))
	}
	b.Claims.Planned += (len(targets) + 1) * (blocks + 1)
	for _, r := range b.Claims.Tables[first].Rows {
		if n := r.Summary.Failed; n > 0 {
			b.Claims.Failures += n
			b.Claims.Failed = append(b.Claims.Failed, analysis.FailedCell{Run: m.ID, Cell: r.Cell, Label: r.Label, Group: workload, Failed: n, Of: blocks, Failure: r.Failure})
		}
	}
}

func table(workload string, targets []string, x metric, blocks int, lost map[string]int) analysis.Table {
	t := analysis.Table{Group: workload, Workload: workload, Metric: x.Metric, Primary: x.primary}
	for i, name := range targets {
		s := x.cells[i]
		if s.failed != 0 && lost[name] == 0 {
			lost[name] = lostTrials(s.failed, blocks)
		}
		t.Rows = append(t.Rows, row(workload, name, x.Metric, s, blocks, lost[name], i == 0, false))
		if i == 0 {
			t.Rows = append(t.Rows, row(workload, name, x.Metric, s, blocks, 0, false, true))
		}
	}
	control := t.Rows[0]
	for i := range t.Rows[1:] {
		t.Rows[i+1].Effect = effect(t.Rows[i+1], control)
		if e := t.Rows[i+1].Effect; e != nil && x.primary {
			judge(e, x.Metric)
		}
	}
	if e := t.Rows[1].Effect; e != nil {
		t.Noise = max(e.Interval.High, 1/e.Interval.Low) - 1
	}
	return t
}

// lostTrials reads a number of failures, where a negative one means all.
func lostTrials(failed, all int) int {
	if failed < 0 {
		return all
	}
	return min(failed, all)
}

func row(workload, name string, m sample.Metric, s series, blocks, lost int, control, aa bool) analysis.Row {
	r := analysis.Row{Cell: name + "/" + workload, Target: name, Label: name, Control: control, AA: aa}
	if aa {
		r.Cell, r.Label = name+"~aa"+"/"+workload, name+" (A/A)"
	}
	rng := source(r.Cell, m.Name)
	for range blocks - lost {
		v := s.median * math.Exp(rng.NormFloat64()*s.spread)
		if rng.Float64() < 0.02 { // a disturbed trial now and then
			v *= 1 + rng.Float64()
		}
		if m.Unit == sample.Count || m.Unit == sample.Bytes {
			v = math.Round(v)
		}
		r.Samples = append(r.Samples, v)
	}
	r.Summary = summarize(r.Samples, lost)
	if lost > 0 {
		code := 1
		r.Failure = &sample.Failure{Fault: sample.FaultTarget, Phase: "start", ExitCode: &code,
			Message: "the payload never acted: the runtime ended first; see its messages", Stderr: name + ": cannot apply cgroup settings: operation not permitted\n"}
	}
	if blocks > lost {
		cold := s.median * 1.8
		r.Cold = &cold
	}
	return r
}

func source(cell, metric string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(cell + "\x00" + metric)) // a hash's Write never fails
	return rand.New(rand.NewPCG(h.Sum64(), 1))
}

func summarize(samples []float64, lost int) analysis.Summary {
	s := analysis.Summary{N: len(samples), Failed: lost}
	if s.N == 0 {
		return s
	}
	sorted := slices.Sorted(slices.Values(samples))
	at := func(q float64) float64 { return sorted[min(int(q*float64(s.N)), s.N-1)] }
	s.Median, s.Min, s.Max, s.P90 = middle(sorted), sorted[0], sorted[s.N-1], at(0.9)
	if s.N >= 100 {
		p99 := at(0.99)
		s.P99 = &p99
	}
	deviations := make([]float64, 0, s.N)
	for _, v := range sorted {
		s.Mean += v / float64(s.N)
		deviations = append(deviations, math.Abs(v-s.Median))
	}
	slices.Sort(deviations)
	s.MAD = middle(deviations)
	for _, d := range deviations {
		if s.MAD > 0 && 0.6745*d/s.MAD > 3.5 {
			s.Outliers++
		}
	}
	s.Interval = orderStatistic(sorted)
	return s
}

func middle(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// orderStatistic is the distribution-free interval of a median, by the normal
// approximation of the binomial.
func orderStatistic(sorted []float64) stats.Interval {
	n := float64(len(sorted))
	if n < 6 {
		return stats.Interval{Method: "none"}
	}
	half := 0.98 * math.Sqrt(n)
	low, high := int(math.Max(n/2-half, 0)), int(math.Min(n/2+half, n-1))
	return stats.Interval{Low: sorted[low], High: sorted[high], Level: 0.95, Method: "order-statistic"}
}

// effect compares block by block, as the real analysis does.
func effect(r, control analysis.Row) *analysis.Effect {
	n := min(len(r.Samples), len(control.Samples))
	if n < 6 {
		return nil
	}
	ratios := make([]float64, 0, n)
	for i := range n {
		ratios = append(ratios, r.Samples[i]/control.Samples[i])
	}
	slices.Sort(ratios)
	e := &analysis.Effect{Ratio: middle(ratios), Interval: orderStatistic(ratios), Blocks: n, P: math.Pow(2, 1-float64(min(n, 60)))}
	return e
}

// judge applies the design's rule with a margin of 2 %, in a primary table.
func judge(e *analysis.Effect, m sample.Metric) {
	word := analysis.Directed(m, e.Ratio > 1)
	size := fmt.Sprintf("%.2g %% %s", 100*math.Abs(e.Ratio-1), word)
	inside := func(v float64) bool { return v >= 1/1.02 && v <= 1.02 }
	certain := e.Interval.Low > 1 || e.Interval.High < 1
	switch {
	case inside(e.Interval.Low) && inside(e.Interval.High):
		e.Verdict, e.Why = analysis.Same, "The interval lies within the margin of ±2 %."
	case certain:
		e.Verdict, e.Why, e.Size = word, "The whole interval lies on one side of 1.", size
	default:
		e.Verdict, e.P, e.Need = analysis.Open, 0.2, 4*e.Blocks
		e.Bound = fmt.Sprintf("between %.2g %% %s and %.2g %% %s", 100*math.Abs(e.Interval.Low-1), analysis.Directed(m, false), 100*math.Abs(e.Interval.High-1), analysis.Directed(m, true))
		e.Why = fmt.Sprintf("Between: the interval contains 1 and reaches out of the margin of ±2 %%; about %d blocks would settle it.", e.Need)
	}
	if certain && inside(e.Ratio) {
		e.BelowMargin, e.Size, e.Why = true, size, size+", below the margin of 2 %."
	}
}

// claims finds a group's primary table.
func (b *builder) claims(group string) *analysis.Table {
	i := slices.IndexFunc(b.Claims.Tables, func(t analysis.Table) bool { return t.Group == group && t.Primary })
	return &b.Claims.Tables[i]
}

func refuse(t *analysis.Table, label, why string) {
	for i := range t.Rows {
		if r := &t.Rows[i]; r.Label == label && r.Effect != nil {
			r.Effect.Verdict, r.Effect.Why = analysis.NotComparable, why
		}
	}
}

// finish completes the counts.
func (b builder) finish() report.Input {
	b.Claims.Alpha, b.Claims.Margin = b.Manifest.Study.Alpha, b.Manifest.Study.Margin
	b.Claims.Trials = b.Claims.Planned
	b.Manifest.Trials = b.Claims.Planned
	return report.Input(b)
}
