// Package reporttest makes realistic synthetic claims, for tests of reports and
// of what shows them. The numbers have the shape of a small virtual machine's;
// the same call gives the same claims.
package reporttest

import (
	"math"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// series is the truth behind one synthetic cell and metric.
type series struct {
	median, spread float64 // spread: standard deviation of the logarithm
	failed         int     // failed trials; all of them when negative
}

// metric is a metric with the truth of each target, in the order of targets.
type metric struct {
	sample.Metric
	primary bool
	cells   []series
}

var (
	ready  = sample.Metric{Name: sample.Ready, Unit: sample.Seconds, Better: sample.Lower, Help: "From the request to start until the payload acted inside the target."}
	wall   = sample.Metric{Name: sample.Wall, Unit: sample.Seconds, Better: sample.Lower, Help: "From the request to start until the payload had ended."}
	user   = sample.Metric{Name: "user", Unit: sample.Seconds, Better: sample.Lower, Help: "CPU time in user mode."}
	system = sample.Metric{Name: "system", Unit: sample.Seconds, Better: sample.Lower, Help: "CPU time in the kernel."}
	memory = sample.Metric{Name: sample.PeakMemory, Unit: sample.Bytes, Better: sample.Lower, Help: "Peak of the cgroup's memory."}
	faults = sample.Metric{Name: sample.MinorFaults, Unit: sample.Count, Better: sample.Lower, Help: "Page faults served without I/O."}
)

var surveyTargets = []string{"host", "native", "runc", "crun", "youki", "runsc"}

// spread gives each median the same relative spread.
func spread(sd float64, medians ...float64) []series {
	out := make([]series, 0, len(medians))
	for _, m := range medians {
		out = append(out, series{median: m, spread: sd})
	}
	return out
}

// general are the metrics that every workload has, scaled by its length.
func general(long float64) []metric {
	return []metric{
		{wall, false, spread(0.03, long+0.7e-3, long+1.4e-3, long+26e-3, long+8.8e-3, long+21e-3, long+151e-3)},
		{user, false, spread(0.04, 0.9*long+0.2e-3, 0.9*long+0.2e-3, 0.9*long+9e-3, 0.9*long+1.4e-3, 0.9*long+4e-3, 0.9*long+61e-3)},
		{system, false, spread(0.05, 0.4e-3, 0.9e-3, 14e-3, 5.2e-3, 11e-3, 48e-3)},
		{memory, false, spread(0.01, 1.1e6, 1.2e6, 11.8e6, 2.4e6, 6.1e6, 46e6)},
		{faults, false, spread(0.002, 81, 96, 2410, 590, 1320, 9120)},
	}
}

func surveyMetrics() map[string][]metric {
	perSecond := func(name, help string) sample.Metric {
		return sample.Metric{Name: name, Unit: sample.PerSecond, Better: sample.Higher, Help: help}
	}
	rate := func(name, help string) sample.Metric {
		return sample.Metric{Name: name, Unit: sample.BytesPerSecond, Better: sample.Higher, Help: help}
	}
	disk := spread(0.025, 1.61e9, 1.60e9, 1.59e9, 1.605e9, 1.57e9, 0.66e9)
	disk[4].failed = -1
	disk[5].failed = 2
	calls := spread(0.008, 2.31e6, 2.30e6, 2.19e6, 2.20e6, 2.19e6, 1.12e5)
	with := func(m metric, long float64) []metric { return append([]metric{m}, general(long)...) }
	return map[string][]metric{
		"start":    append([]metric{{ready, true, spread(0.05, 0.62e-3, 1.17e-3, 20.4e-3, 6.9e-3, 16.2e-3, 124e-3)}}, general(0)...),
		"cpu":      with(metric{perSecond("events", "Prime searches per second (sysbench cpu)."), true, spread(0.004, 2214, 2212, 2213.5, 2211, 2212.5, 2160)}, 1),
		"memory":   with(metric{rate(sample.Throughput, "Bytes written to memory per second (sysbench memory)."), true, spread(0.03, 9.1e9, 9.05e9, 9.12e9, 9.08e9, 9.0e9, 8.2e9)}, 1),
		"disk":     with(metric{rate(sample.Throughput, "Random reads of 4 KiB from the private overlay (fio)."), true, disk}, 2),
		"syscalls": with(metric{perSecond("calls", "System calls per second (getppid in a loop)."), true, calls}, 1),
	}
}

// Survey is a price list: six targets and an A/A twin, five workloads, failed
// trials, an inconclusive and a refused verdict.
func Survey() report.Input {
	in := builder{Manifest: manifest("survey", study.ViewPriceList, surveyTargets, 20)}
	in.Manifest.Study.Title = "What isolation costs on this machine"
	in.Manifest.Study.Question = "How much slower is the same work in a bare container and in each OCI runtime than on the host?"
	in.Manifest.LeftOut = map[string]string{
		"runsc/kvm":        "a stock Linux kernel does not reach user mode under KVM here (accel=tcg)",
		"kata/firecracker": "firecracker is not installed (see docs/targets.md)",
	}
	metrics := surveyMetrics()
	for _, w := range []string{"start", "cpu", "memory", "disk", "syscalls"} {
		in.add(w, surveyTargets, metrics[w], 20)
	}
	refuse(in.claims("memory"), "youki", "the control drifted by 6.1 % within these blocks: the machine was too noisy")
	in.Claims.Warnings = analysis.Warnings(analysis.General,
		"CPU steal was above 5 % in 7 of 840 trials: other guests used this machine's CPUs. Run again at a quieter time, or with more blocks.",
		"perf counters are software only: cycles and instructions are not shown.",
	)
	return in.finish()
}

// Ladder is a study of 14 steps from a plain start to gVisor.
func Ladder() report.Input {
	names := []string{"vfork", "pid", "mount", "uts", "ipc", "net", "cgroup-ns", "pivot-root", "cgroup", "no-new-privs", "seccomp", "native", "crun", "runc", "runsc"}
	medians := []float64{55e-6, 86e-6, 214e-6, 226e-6, 239e-6, 640e-6, 668e-6, 742e-6, 934e-6, 934.6e-6, 981e-6, 975e-6, 6.9e-3, 20.4e-3, 124e-3}
	in := builder{Manifest: manifest("ladder", study.ViewLadder, names, 30)}
	in.Manifest.Study.Title = "What each isolation step costs"
	in.Manifest.Study.Question = "Which of the steps between a plain process and a container costs how many microseconds?"
	in.Manifest.Study.Control = names[0]
	in.add("start", names, []metric{{ready, true, spread(0.04, medians...)}, {system, false, spread(0.05, medians...)}}, 30)
	t := in.claims("start")
	l := analysis.Ladder{Group: "start", Metric: ready, Base: names[0]}
	var before analysis.Summary
	for _, r := range t.Rows {
		if r.AA {
			continue
		}
		if r.Control {
			l.BaseMedian, l.BaseInterval, before = r.Summary.Median, r.Summary.Interval, r.Summary
			continue
		}
		l.Steps = append(l.Steps, step(l, r, before))
		before = r.Summary
	}
	rise := before.Median - l.BaseMedian
	l.Total, l.Blocks = before.Median, 30
	l.Rise = stats.Estimate{Value: rise, Interval: stats.Interval{Low: 0.99 * rise, High: 1.01 * rise, Level: 0.95, Method: stats.MethodBootstrap}}
	in.Claims.Ladders = []analysis.Ladder{l}
	return in.finish()
}

func step(l analysis.Ladder, r analysis.Row, before analysis.Summary) analysis.Step {
	from := l.Base
	if n := len(l.Steps); n > 0 {
		from = l.Steps[n-1].To
	}
	delta := r.Summary.Median - before.Median
	half := math.Hypot(r.Summary.Interval.High-r.Summary.Interval.Low, before.Interval.High-before.Interval.Low) / 2
	return analysis.Step{From: from, To: r.Target, Median: r.Summary.Median, Delta: delta,
		Interval: stats.Interval{Low: delta - half, High: delta + half, Level: 0.95, Method: "BCa"}}
}

// Large is a run of the given number of records, spread over the survey's
// targets and one workload with two metrics.
func Large(records int) report.Input {
	in := builder{Manifest: manifest("large", study.ViewPriceList, surveyTargets, records/(len(surveyTargets)+1))}
	in.Manifest.Study.Title, in.Manifest.Study.Question = "A large run", "Does the report stay small?"
	ms := append([]metric{{ready, true, spread(0.2, 0.62e-3, 1.17e-3, 20.4e-3, 6.9e-3, 16.2e-3, 124e-3)}}, general(0)[:1]...)
	in.add("start", surveyTargets, ms, in.Manifest.Study.Blocks)
	return in.finish()
}

// Hostile is a run whose every text tries to break out of where it is shown.
func Hostile() report.Input {
	attack := "<script>window.hacked=1</script><img src=x onerror=\"window.hacked=2\">`|`\u2028\u202e\x1b[31m\x00,\"=1+1"
	names := []string{"host", attack}
	in := builder{Manifest: manifest("hostile", study.ViewLadder, names, 12)}
	m := &in.Manifest
	m.Study.Title, m.Study.Question = "</title></script>"+attack, attack
	m.Host.CPU, m.Host.OS, m.Image = attack, attack, attack
	m.Command = []string{"tare", "weigh", "--", attack, "a b"}
	m.LeftOut = map[string]string{attack: attack}
	m.Targets[attack] = driver.Facts{Version: attack, Path: attack, Notes: map[string]string{attack: attack}}
	in.add(attack, names, []metric{{sample.Metric{Name: sample.Ready, Unit: sample.Seconds, Better: sample.Lower, Help: attack}, true,
		[]series{{1e-3, 0.01, 0}, {2e-3, 0.01, 3}}}}, 12)
	t := in.claims(attack)
	for i := range t.Rows {
		if f := t.Rows[i].Failure; f != nil {
			f.Message, f.Stderr = attack, "</script>\xff\xfe"+attack
		}
	}
	last := t.Rows[len(t.Rows)-1]
	in.Claims.Ladders = []analysis.Ladder{{Group: attack, Metric: t.Metric, Base: "host", BaseMedian: t.Rows[0].Summary.Median,
		BaseInterval: t.Rows[0].Summary.Interval, Total: last.Summary.Median}}
	in.Claims.Ladders[0].Steps = []analysis.Step{step(in.Claims.Ladders[0], last, t.Rows[0].Summary)}
	in.Claims.Warnings = analysis.Warnings(analysis.General, attack)
	return in.finish()
}
