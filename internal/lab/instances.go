package lab

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tarelab/tare/internal/probe"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/trial"
	"github.com/tarelab/tare/internal/workload"
)

// many says that a cell's instances are measured as one.
func (p *Plan) many(c study.Cell) bool { return c.Concurrency > 0 || p.jobOf(c).Hold }

// uncounted says that the study leaves perf's counters out.
func (p *Plan) uncounted() bool {
	return p.Manifest.Study.Counters != nil && !*p.Manifest.Study.Counters
}

// manyTogether makes what many instances tell together out of their times to
// ready. A percentile needs so many of them that it is not the largest.
func manyTogether(_, _ float64, values map[string][]float64) ([]sample.Value, []sample.Warning) {
	ready := slices.Sorted(slices.Values(values[sample.Ready]))
	var out []sample.Value
	for _, q := range []struct {
		metric string
		p      float64
		from   int
	}{{sample.ReadyP50, 0.5, 1}, {sample.ReadyP90, 0.9, 10}, {sample.ReadyP99, 0.99, 100}, {sample.ReadyMax, 1, 1}} {
		if len(ready) >= q.from {
			out = append(out, sample.Value{Metric: q.metric, Value: stats.Quantile(ready, q.p)})
		}
	}
	if e := values[sample.Elapsed]; len(e) == 1 && e[0] > 0 {
		out = append(out, sample.Value{Metric: sample.StartsPerSecond, Value: float64(len(ready)) / e[0]})
	}
	return out, nil
}

// heldTogether adds what the last of held instances tells.
func heldTogether(from, to float64, values map[string][]float64) ([]sample.Value, []sample.Warning) {
	out, warnings := manyTogether(from, to, values)
	if ready := values[sample.Ready]; len(ready) > 0 { // in the order of their starts
		out = append(out, sample.Value{Metric: sample.ReadyLast, Value: ready[len(ready)-1]})
	}
	return out, warnings
}

// holding is how a trial holds its instances: with a census, after their rest and
// KSM's; nil where they end by themselves.
func (l *Lab) holding(job workload.Job, merged bool) *trial.Hold {
	if !job.Hold {
		return nil
	}
	return &trial.Hold{Begin: probe.Census{Launcher: l.place.LaunchPath}.Begin, Settle: func(ctx context.Context) error {
		select {
		case <-time.After(job.Settle):
		case <-ctx.Done():
			return fmt.Errorf("all were held, and had not rested for %v when the trial's time was over: %w", job.Settle, ctx.Err())
		}
		if merged {
			return sys.AwaitKSM(ctx)
		}
		return nil
	}}
}

// manyMetrics are a workload's metrics where its instances are measured as one:
// what they tell together first.
func manyMetrics(own []sample.Metric, hold bool) []sample.Metric {
	metrics := append(workload.Many(), own...)
	for _, m := range probe.Metrics() {
		counted := slices.Contains(countedOfMany, m.Name)
		if counted || hold && slices.Contains(weighed, m.Name) {
			metrics = append(metrics, m)
		}
	}
	return append(metrics, probe.RoleCounters()...)
}

// What is shown of the probes where many instances are measured as one, and
// where they are held.
var (
	countedOfMany = []string{
		sample.ClientCPU, sample.DaemonCPU, sample.TaskClock, sample.Switches, sample.Migrations, sample.PageFaults,
		sample.Cycles, sample.Instructions, sample.Branches, sample.BranchMisses, sample.Counted,
		sample.GroupCPUPressure, sample.GroupIOPressure, sample.RunQueueWait, sample.MachineCPU, sample.TareCPU,
	}
	weighed = []string{
		sample.AvailableDrop, sample.Mapped, sample.Dirty, sample.GuestResident, sample.VMMOverhead, sample.VMMThreads, sample.VMMFiltered, sample.SavedSize, sample.PayloadPSS, sample.PayloadRSS, sample.PayloadCharge,
		sample.RuntimePSS, sample.RuntimeRSS, sample.RuntimeCharge,
		sample.ClientPSS, sample.ClientRSS, sample.ClientCharge, sample.DaemonPSS, sample.DaemonRSS, sample.DaemonCharge,
	}
)
