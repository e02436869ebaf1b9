package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
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
func manyTogether(_, _ float64, values map[string][]float64) ([]sample.Value, []string) {
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
func heldTogether(from, to float64, values map[string][]float64) ([]sample.Value, []string) {
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
	return &trial.Hold{Begin: probe.Census{Launcher: l.Target.LaunchPath}.Begin, Settle: func(ctx context.Context) error {
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
		sample.AvailableDrop, sample.Mapped, sample.Dirty, sample.GuestResident, sample.VMMOverhead, sample.PayloadPSS, sample.PayloadRSS, sample.PayloadCharge,
		sample.RuntimePSS, sample.RuntimeRSS, sample.RuntimeCharge,
		sample.ClientPSS, sample.ClientRSS, sample.ClientCharge, sample.DaemonPSS, sample.DaemonRSS, sample.DaemonCharge,
	}
)

// Rough needs of many instances, by which a plan that cannot work is refused
// before it starts.
const (
	preparedMemory = 1 << 20 // of an instance that waits, or has ended: launcher, mounts, groups, pipes
	heldMemory     = 8 << 20 // of one that is alive and does nothing, with its runtime
	waitingTasks   = 2       // processes and threads of one that waits or is held: launcher and payload
	busyTasks      = 16      // of one that is being started: a runtime's threads
	filesEach      = 8       // tare's file descriptors for one: pipes for two streams and three reports
	filesOwn       = 256     // beside all instances and the probes of all of them
)

// fitMany leaves out the levels of held instances that this machine cannot have at
// once, with the arithmetic. Instances that are not held, those that were asked for by
// their number (exact), and levels without which nothing is left of a target that must
// run, are refused.
func (p *Plan) fitMany(exact bool) error {
	limits, err := machineLimits()
	if err != nil {
		return err
	}
	return p.withRoom(exact, func(c study.Cell) error { return p.noRoom(c, limits) })
}

// withRoom does so where noRoom says why a cell cannot be.
func (p *Plan) withRoom(exact bool, noRoom func(study.Cell) error) error {
	var kept, left []study.Cell
	for _, c := range p.Manifest.Cells {
		if !p.many(c) {
			kept = append(kept, c)
			continue
		}
		err := noRoom(c)
		switch {
		case err == nil:
			kept = append(kept, c)
			continue
		case exact || !p.jobOf(c).Hold:
			return &InputError{err}
		}
		left = append(left, c)
		p.Manifest.LeftOut[c.ID] = err.Error()
	}
	for _, c := range left {
		measured := slices.ContainsFunc(kept, func(k study.Cell) bool { return k.Target == c.Target })
		if !measured && !slices.Contains(p.Manifest.Study.Optional, c.Target) {
			return &InputError{errors.New(p.Manifest.LeftOut[c.ID])}
		}
	}
	p.Manifest.Cells = kept
	return nil
}

// noRoom says which limit of the machine a cell's instances exceed, with the
// arithmetic; nil where none.
func (p *Plan) noRoom(c study.Cell, limits []machineLimit) error {
	n, busy := int64(c.Copies), int64(c.Copies)
	if c.Concurrency > 0 {
		busy = min(busy, int64(c.Concurrency))
	}
	alive, hold := busy, p.jobOf(c).Hold
	if hold {
		alive = n
	}
	of := p.drivers[c.Target].Properties().Footprint
	of.Memory += int(p.jobOf(c).Memory)
	if p.Manifest.Targets[c.Target].Notes[driver.NoteUnread] != "" {
		of.DaemonFiles = 0 // its daemon's limit is not tare's
	}
	for _, limit := range limits {
		if need, sum := limit.need(n, busy, alive, hold, of); need > limit.value {
			return fmt.Errorf("cell %s cannot run here: %d instances, %d under way at once, need about %s %s (%s), and %s is %s; take fewer instances, or raise it",
				c.ID, n, busy, limit.show(need), limit.what, sum, limit.name, limit.show(limit.value))
		}
	}
	if ports := p.drivers[c.Target].Properties().Ports; ports > 0 && alive > int64(ports) {
		return fmt.Errorf("cell %s cannot run here: %d instances alive at once need a port each, and the network of %s takes %d; take fewer instances", c.ID, alive, c.Target, ports)
	}
	return nil
}

// machineLimit is a number that the machine does not exceed: what is needed by
// itself, for each instance (in place of that, for each that is held), for each that
// is under way, and what the target's footprint adds for each and for each alive.
type machineLimit struct {
	name, what            string
	value                 int64
	own, each, held, busy int64
	more                  func(driver.Footprint) (each, alive int)
	show                  func(int64) string
}

// need is what n instances take of the limit, of which so many are under way and
// alive at once, with the sum that it is.
func (l machineLimit) need(n, busy, alive int64, hold bool, of driver.Footprint) (need int64, sum string) {
	each := l.each
	if hold && l.held > 0 {
		each = l.held
	}
	moreEach, moreAlive := 0, 0
	if l.more != nil {
		moreEach, moreAlive = l.more(of)
	}
	parts := []string{}
	for _, p := range []struct {
		number, takes int64
		what          string
	}{{1, l.own, ""}, {n, each + int64(moreEach), ""}, {alive, int64(moreAlive), " alive"}, {busy, l.busy, " under way"}} {
		if p.takes == 0 {
			continue
		}
		need += p.number * p.takes
		part := l.show(p.takes)
		if len(parts) > 0 || l.own == 0 {
			part = fmt.Sprintf("%d%s x %s", p.number, p.what, part)
		}
		parts = append(parts, part)
	}
	return need, strings.Join(parts, " + ")
}

func plainNumber(n int64) string { return strconv.FormatInt(n, 10) }
func bytesNumber(n int64) string { return units.BytesSize(float64(n)) }

// machineLimits are those that many instances meet first, with what is in use.
func machineLimits() ([]machineLimit, error) {
	available, err := hostMemory()
	if err != nil {
		return nil, err
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return nil, fmt.Errorf("limit of open files: %w", err)
	}
	counters, err := probe.ManyFiles()
	if err != nil {
		return nil, err
	}
	tasks, err := runningTasks()
	if err != nil {
		return nil, err
	}
	memory := func(name string, value int64) machineLimit {
		return machineLimit{name: name, what: "of memory", value: value, each: preparedMemory, held: heldMemory, busy: instanceMemory, show: bytesNumber,
			more: func(f driver.Footprint) (each, alive int) { return 0, f.Memory }}
	}
	limits := []machineLimit{
		memory("the memory that is available", available),
		{name: "tare's limit of open files (ulimit -n)", what: "descriptors", value: int64(min(files.Cur, 1<<40)), own: filesOwn + int64(counters), each: filesEach, show: plainNumber,
			more: func(f driver.Footprint) (each, alive int) { return f.LabFiles, 0 }},
		{name: "the engine's limit of open files (ulimit -Hn)", what: "descriptors of its daemon", value: int64(min(files.Max, 1<<40)), show: plainNumber,
			more: func(f driver.Footprint) (each, alive int) { return 0, f.DaemonFiles }},
	}
	for _, g := range limitsAbove(driver.Label, "memory") {
		if left, ok := g.left(); ok {
			limits = append(limits, memory(g.file()+", less what is in use,", left))
		}
	}
	for _, file := range taskLimits() {
		if value, ok := numberIn(file); ok {
			now := tasksUnder(file, tasks)
			limits = append(limits, machineLimit{name: file, what: "processes and threads, " + plainNumber(now) + " of them running now",
				value: value, own: now, each: waitingTasks, busy: busyTasks, show: plainNumber,
				more: func(f driver.Footprint) (each, alive int) { return 0, f.Tasks }})
		}
	}
	return limits, nil
}
