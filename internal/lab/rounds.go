package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/probe"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/schedule"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/trial"
)

// settleSets finds the cells that are measured together in rounds: those with one number
// of instances, in all environments that leave the rest of the machine as it is; where
// that were too many at once, those of one program in one environment. A block starts each
// program once on each target in each environment.
func (p *Plan) settleSets() error {
	known := map[string]string{}
	together := p.fewHeld()
	for i, c := range p.Manifest.Cells {
		j := p.jobOf(c)
		if j.Turns == nil {
			continue
		}
		switch {
		case c.Probe != "":
			return &InputError{fmt.Errorf("workload %s is measured in rounds, which the probe %s cannot watch: leave one of them out", c.Workload, c.Probe)}
		case c.Concurrency > 0:
			return &InputError{fmt.Errorf("workload %s is measured in rounds, in which all instances take each turn at once: leave concurrency out", c.Workload)}
		}
		alike := p.programOf(c)
		if l := c.Limits; together && l.Network == nil && l.Guest == nil && !limitsTime(l) {
			alike = fmt.Sprintf("%d instances", c.Copies)
		}
		if known[alike] == "" {
			known[alike] = fmt.Sprintf("rounds-%d", len(known)+1)
		}
		p.Manifest.Cells[i].Set, p.Manifest.Cells[i].Runs = known[alike], 0
	}
	return nil
}

// limitsTime reports whether CPU time is limited at a level with a load: who rests in
// between saves his quota, so such a level has rounds of its own.
func limitsTime(l study.Environment) bool {
	return l.Load != nil && (l.CPUs > 0 || l.Load.CPUs > 0)
}

// mostHeld is how many processes that take turns may be alive at once, over all environments.
const mostHeld = 128

// fewHeld reports whether the instances of all environments may be alive at once.
func (p *Plan) fewHeld() bool {
	held := map[string]int{}
	for _, c := range p.Manifest.Cells {
		if p.jobOf(c).Turns != nil {
			held[p.instanceOf(c)] = c.Copies * p.jobOf(c).Turns.Copies
			if c.Limits.Load != nil {
				held["load of "+c.Environment] = p.loads[c.Environment].copies
			}
		}
	}
	sum := 0
	for _, copies := range held {
		sum += copies
	}
	return sum <= mostHeld
}

// programOf names what a cell's turns run, and in which environment.
func (p *Plan) programOf(c study.Cell) string {
	j := p.jobOf(c)
	return fmt.Sprintf("%s %q %q %q %t", strings.TrimPrefix(c.Group, c.Workload), j.Args, environment(j.Env, p.workloadOf(c).Env), j.Disk, j.Direct)
}

// instanceOf names what serves a cell's turns: a program on a target, or on the control's
// twin, in an environment.
func (p *Plan) instanceOf(c study.Cell) string {
	return fmt.Sprintf("%s %t %s", c.Target, c.AA, p.programOf(c))
}

// workloadOf is the study's workload of a cell.
func (p *Plan) workloadOf(c study.Cell) study.Workload {
	all := p.Manifest.Study.Workloads
	return all[slices.IndexFunc(all, func(w study.Workload) bool { return w.Name == c.Workload })]
}

// roundsOf is how many rounds a block has of a cell.
func (p *Plan) roundsOf(c study.Cell) int {
	return cmp.Or(p.Manifest.Study.RoundsOf(p.workloadOf(c)), study.DefaultRounds)
}

// unit is the trials from the i-th on that are made together: a set's of one block, or
// one by itself.
func (p *Plan) unit(i int) []schedule.Trial {
	first := p.trials[i]
	set := p.Manifest.Cells[first.Cell].Set
	if set == "" {
		return p.trials[i : i+1]
	}
	n := slices.IndexFunc(p.trials[i:], func(t schedule.Trial) bool {
		return t.Block != first.Block || p.Manifest.Cells[t.Cell].Set != set
	})
	if n < 0 {
		n = len(p.trials) - i
	}
	return p.trials[i : i+n]
}

// rounds makes the job of a set's trials of one block, with a share of its rounds.
func (l *Lab) rounds(p *Plan, unit []schedule.Trial, share float64) trial.Rounds {
	first := p.Manifest.Cells[unit[0].Cell]
	block := trial.Rounds{
		Block: unit[0].Block, Slice: cmp.Or(p.Manifest.Study.Slice, study.DefaultSlice),
		Timeout: p.Manifest.Study.Timeout, Device: probe.DeviceBytes,
	}
	loads := map[string]int{} // by environment: the place of its load
	held := map[string]int{}
	var groups []string
	var workloads []schedule.Slices      // as groups, of the targets in visits
	visits := map[string][]trial.Visit{} // by workload: where its targets are
	// Who is started first gets other memory than the last: no target is always it.
	for _, i := range schedule.Order(len(unit), p.seedOf(first.Set+" start", block.Block)) {
		t := unit[i]
		c := p.Manifest.Cells[t.Cell]
		at, known := held[p.instanceOf(c)]
		if !known {
			job := l.job(p, t)
			at = len(block.Held)
			job.Spec.Modules = nil // those of all its workloads
			held[p.instanceOf(c)] = at
			if load := p.load(c); load != nil && loads[c.Environment] == 0 {
				block.Loads = append(block.Loads, *load)
				loads[c.Environment] = len(block.Loads)
			}
			block.Held = append(block.Held, trial.Held{Driver: job.Driver, Spec: job.Spec, Copies: job.Copies, Load: loads[c.Environment]})
		}
		for _, module := range p.jobOf(c).Modules {
			if modules := &block.Held[at].Spec.Modules; !slices.Contains(*modules, module) {
				*modules = append(*modules, module)
			}
		}
		if visits[c.Workload] == nil {
			groups = append(groups, c.Workload)
			workloads = append(workloads, nil)
		}
		w := slices.Index(groups, c.Workload)
		workloads[w] = append(workloads[w], int(math.Ceil(share*p.slowShare(c)*float64(p.roundsOf(c)))))
		turns := p.jobOf(c).Turns
		visits[c.Workload] = append(visits[c.Workload], trial.Visit{Held: at, Turn: len(block.Held[at].Turns)})
		block.Held[at].Turns = append(block.Held[at].Turns, trial.Turn{
			Seq: t.Seq, Cell: c.ID, Name: turns.Name, Bytes: turns.Bytes,
			Device: turns.Evidence == sample.EvidenceCached || turns.Evidence == sample.EvidenceDevice,
		})
	}
	for _, round := range schedule.Rounds(workloads, p.seedOf(first.Set, block.Block)) {
		order := make([]trial.Visit, len(round))
		for i, v := range round {
			order[i] = visits[groups[v.Workload]][v.Target]
		}
		block.Order = append(block.Order, order)
	}
	block.Prepare = p.prepareAll(unit)
	return block
}

// seedOf is the seed of the order of one block of a set: a resumed block has the order
// that it had.
func (p *Plan) seedOf(set string, block int) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %d", p.Manifest.Seed, set, block) // a hash never fails
	return h.Sum64()
}

// prepareAll runs the prepare commands of a set's workloads, each once; nil for none.
func (p *Plan) prepareAll(unit []schedule.Trial) func(context.Context) error {
	var names []string
	var commands []func(context.Context) error
	for _, t := range unit {
		w := p.workloadOf(p.Manifest.Cells[t.Cell])
		if len(w.Prepare) > 0 && !slices.Contains(names, w.Name) {
			names = append(names, w.Name)
			commands = append(commands, hostCommand(w.Prepare, p.Manifest.Dir, p.prepareGroup, p.Manifest.Study.Timeout))
		}
	}
	if len(commands) == 0 {
		return nil
	}
	return func(ctx context.Context) error {
		var errs []error
		for _, run := range commands {
			errs = append(errs, run(ctx))
		}
		return errors.Join(errs...)
	}
}

// roundsTime is how long the rounds of a set took that gave these records; 0 where they are
// not of rounds.
func roundsTime(records []sample.Record) time.Duration {
	var last int64
	for _, r := range records {
		if r.Slices != nil && len(r.Slices.To) > 0 {
			last = max(last, r.Slices.To[len(r.Slices.To)-1])
		}
	}
	return time.Duration(last)
}

// slowTurn is from how many times the control's time on a turn is slow.
const slowTurn = 2

// slowShare of its rounds a cell takes part in: one with slow turns, of a run with a budget,
// has as much time as the control. What slows its turns, such as a way through gVisor's
// kernel or into a machine, slows most of its work by far more than an interval is wide,
// and the time is better spent on others. The twin does what the control does.
func (p *Plan) slowShare(c study.Cell) float64 {
	if p.Manifest.Study.Budget == 0 || c.Control || c.AA {
		return 1
	}
	control := slices.IndexFunc(p.Manifest.Cells, func(o study.Cell) bool { return o.Control && o.Group == c.Group })
	if control < 0 {
		return 1
	}
	own, base := p.turns[c.ID], p.turns[p.Manifest.Cells[control].ID]
	if base == 0 || own <= slowTurn*base {
		return 1
	}
	return float64(base) / float64(own)
}

// learnTurns notes how long the turns of each cell took, by the records of a block.
func (p *Plan) learnTurns(records []sample.Record) {
	for _, r := range records {
		if r.Slices == nil || len(r.Slices.To) == 0 {
			continue
		}
		took := make([]float64, len(r.Slices.To))
		for i, to := range r.Slices.To {
			took[i] = float64(to - r.Slices.From[i])
		}
		p.turns[r.Cell] = time.Duration(stats.Median(stats.Sorted(took)))
	}
}

// turnTime is roughly what a turn takes besides its slice: the way there and back.
const turnTime = 300 * time.Microsecond

// expectedRounds is a rough length of a cell's part of a block.
func (p *Plan) expectedRounds(c study.Cell) time.Duration {
	served := 0
	for _, other := range p.Manifest.Cells {
		if other.Set == c.Set && p.instanceOf(other) == p.instanceOf(c) {
			served++
		}
	}
	start := aroundTrial + time.Duration(c.Copies)*(p.drivers[c.Target].Properties().StartTime+aroundInstance)
	turns := time.Duration(p.roundsOf(c)+1) * (cmp.Or(p.Manifest.Study.Slice, study.DefaultSlice) + turnTime)
	return start/time.Duration(max(1, served)) + turns
}
