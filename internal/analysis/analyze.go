package analysis

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

// Input is one run, as Analyze and Compare take it.
type Input struct {
	Run     string // its id
	Cells   []study.Cell
	Metrics map[string][]sample.Metric // by workload name, in the order of display
	Data    *Data
	Alpha   float64 // family-wise error of a table; 0 means 0.05
	Margin  float64 // of equivalence, as a fraction; 0 means 0.02
	Blocks  int     // of the plan
	Planned int     // trials of the plan
	View    study.View
	Beside  []string // targets that stand beside a ladder's chain
	Seed    uint64   // of the resampling; the same seed gives the same claims
	// Primary names, by workload, the metric that the price list shows; without
	// an entry it is the first of Metrics that has numbers.
	Primary map[string]string
	// Accels is what ran a virtual machine's CPU, by target: "kvm" or "tcg". Where
	// both are known and differ, a cell is not compared with its control.
	Accels map[string]string
	// Evidence is how the work of cells that were measured in rounds is proven, by
	// workload.
	Evidence map[string]sample.Evidence
	// Emulated says why the CPU of the whole run is an emulated one: then it has no
	// verdict at all. "" for a real one.
	Emulated string
	Live     bool // another process is measuring the run: more trials will come
}

// EmulatedRun is why nothing is claimed of a run on an emulated CPU, "" where it
// is a real one.
func EmulatedRun(why string) string {
	if why == "" {
		return ""
	}
	return "This CPU is emulated (" + why + "): its numbers are the emulator's and no machine's performance."
}

// emulatedGuest is the accel of a guest whose CPU is emulated (target.NoteAccel).
const emulatedGuest = "tcg"

// emulatedAgainst is why nothing is claimed of a target against its control: the
// CPU of one of the two is emulated. Memory is no matter of speed.
func (in Input) emulatedAgainst(target, control string, m sample.Metric) string {
	if x, y := in.Accels[target], in.Accels[control]; m.Unit == sample.Bytes || (x == emulatedGuest) == (y == emulatedGuest) {
		return ""
	} else if y == emulatedGuest {
		target, control = control, target
	}
	return fmt.Sprintf("The CPU of %s is emulated (TCG) and that of %s is not: their ratio is the emulator's.", target, control)
}

// unlike reports whether one target's CPU was emulated and the other's was not.
func (in Input) unlike(a, b string) bool {
	x, y := in.Accels[a], in.Accels[b]
	return x != "" && y != "" && x != y
}

// WithDefaults fills what a caller may leave out.
func (in Input) WithDefaults() Input {
	if in.Alpha == 0 {
		in.Alpha = 0.05
	}
	if in.Margin == 0 {
		in.Margin = 0.02
	}
	if in.Data == nil {
		in.Data = NewData(nil, 0)
	}
	return in
}

// Analyze says all that can be said of one run. The same Input gives the same
// Claims. It uses all CPUs that the process may.
func Analyze(in Input) Claims {
	in = in.WithDefaults()
	groups := in.groups()
	jobs := in.jobs(groups)
	results := make([]result, len(jobs))
	each(len(jobs), func(i int) { results[i] = in.table(jobs[i]) })
	claims := Claims{
		Tables:   make([]Table, 0, len(jobs)),
		Alpha:    in.Alpha,
		Margin:   in.Margin,
		Failures: in.Data.failures,
		Trials:   in.Data.trials,
		Planned:  in.Planned,
		Failed:   in.failed(),
	}
	var texts []string
	var stalled, far []stall
	for _, r := range results {
		claims.Tables = append(claims.Tables, r.table)
		texts = append(texts, r.warnings...)
		stalled, far = append(stalled, r.stalled...), append(far, r.far...)
		if r.ladder != nil {
			claims.Ladders = append(claims.Ladders, *r.ladder)
		}
	}
	texts = slices.Concat(texts, worstStalls(stalled, "more than "+percent(manySlices)+" of the slices took as long"), worstStalls(far, "trials lie far from the cell's own median"))
	claims.Warnings = append(in.runWarnings(claims, groups), Warnings(General, texts...)...)
	return claims
}

// each calls f for 0..n-1, on all CPUs.
func each(n int, f func(i int)) {
	var wait sync.WaitGroup
	next := make(chan int)
	for range min(n, runtime.GOMAXPROCS(0)) {
		wait.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wait.Wait()
}

// group is the cells that differ only in their target.
type group struct {
	name         string
	cells        []study.Cell
	control      int // index into cells, -1 = none
	aa           int
	refusal      string // why nothing is claimed of the group; "" where something may be
	disturbances []disturbance
}

// base is the control's cell of a group that has one.
func (g group) base() study.Cell { return g.cells[g.control] }

// groups keeps the order in which groups and cells appear.
func (in Input) groups() []group {
	var out []group
	at := map[string]int{}
	for _, c := range in.Cells {
		i, ok := at[c.Group]
		if !ok {
			i = len(out)
			at[c.Group] = i
			out = append(out, group{name: c.Group, control: -1, aa: -1})
		}
		g := &out[i]
		switch {
		case c.AA:
			g.aa = len(g.cells)
		case c.Control:
			g.control = len(g.cells)
		}
		g.cells = append(g.cells, c)
	}
	run := in.steal(group{cells: in.Cells})
	for i := range out {
		out[i].refusal = cmp.Or(EmulatedRun(in.Emulated), in.controlFailed(out[i]))
		out[i].disturbances = in.disturbances(out[i], run)
	}
	return out
}

// job is one table to make.
type job struct {
	group   group
	metric  sample.Metric
	primary bool
	twins   int // of the report, which are judged together
}

type result struct {
	table    Table
	ladder   *Ladder
	warnings []string
	stalled  []stall // cells of which many slices stalled
	far      []stall // cells with trials far from the rest
}

// jobs lists the tables: each group's metrics that any of its cells has given.
// A group whose trials all failed keeps its first metric, to show the failures.
func (in Input) jobs(groups []group) []job {
	var jobs []job
	twins := 0
	for _, g := range groups {
		if g.aa >= 0 {
			twins++
		}
	}
	for _, g := range groups {
		workload := g.cells[0].Workload
		first := len(jobs)
		metrics := in.Metrics[workload]
		if g.cells[0].Probe != "" {
			// Times are those of the trials that nothing watched.
			metrics = slices.DeleteFunc(profile.Metrics(), func(m sample.Metric) bool { return !in.happened(g, m.Name) })
		}
		for _, m := range metrics {
			if in.measured(g, m.Name) {
				jobs = append(jobs, job{group: g, metric: m, twins: twins})
			}
		}
		if len(jobs) == first && len(metrics) > 0 {
			jobs = append(jobs, job{group: g, metric: metrics[0], twins: twins})
		}
		markPrimary(jobs[first:], in.Primary[workload])
	}
	return jobs
}

// markPrimary marks the metric of that name, or the first where none has it.
func markPrimary(jobs []job, name string) {
	if len(jobs) > 0 {
		i := slices.IndexFunc(jobs, func(j job) bool { return j.metric.Name == name })
		jobs[max(0, i)].primary = true
	}
}

func (in Input) measured(g group, metric string) bool {
	return slices.ContainsFunc(g.cells, func(c study.Cell) bool { return in.Data.has(c.ID, metric) })
}

// happened says whether a metric is anything but 0 anywhere in a group.
func (in Input) happened(g group, metric string) bool {
	return slices.ContainsFunc(g.cells, func(c study.Cell) bool {
		return slices.ContainsFunc(in.Data.cells[c.ID].series(metric).values, func(v float64) bool { return v != 0 })
	})
}

// has says whether a cell gave any number of a metric.
func (d *Data) has(cell, metric string) bool {
	c := d.cells[cell]
	return c != nil && c.metrics[metric] != nil && len(c.metrics[metric].values) > 0
}
