package lab

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/tarelab/tare/internal/probe"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/schedule"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/trial"
)

// settleSets finds the cells that are measured together in rounds: those of one
// program in one environment, with one number of instances. A block starts each of their targets once.
func (p *Plan) settleSets() error {
	known := map[string]string{}
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
		w := p.workloadOf(c)
		program, err := json.Marshal([]any{j.Args, environment(j.Env, w.Env), j.Disk, j.Direct, c.Limits, c.Copies, p.roundsOf(c)})
		if err != nil {
			return fmt.Errorf("workload %s: %w", c.Workload, err)
		}
		if known[string(program)] == "" {
			known[string(program)] = fmt.Sprintf("rounds-%d", len(known)+1)
		}
		p.Manifest.Cells[i].Set, p.Manifest.Cells[i].Runs = known[string(program)], 0
	}
	return nil
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

// rounds makes the job of a set's trials of one block.
func (l *Lab) rounds(p *Plan, unit []schedule.Trial) trial.Rounds {
	type instance struct {
		target string
		twin   bool
	}
	first := p.Manifest.Cells[unit[0].Cell]
	block := trial.Rounds{
		Block: unit[0].Block, Slice: cmp.Or(p.Manifest.Study.Slice, study.DefaultSlice),
		Timeout: p.Manifest.Study.Timeout, Device: probe.DeviceBytes,
	}
	held := map[instance]int{}
	var groups []string
	visits := map[string][]trial.Visit{} // by group: where its targets are
	// Who is started first gets other memory than the last: no target is always it.
	for _, i := range schedule.Order(len(unit), p.seedOf(first.Set+" start", block.Block)) {
		t := unit[i]
		c := p.Manifest.Cells[t.Cell]
		at, known := held[instance{c.Target, c.AA}]
		if !known {
			job := l.job(p, t)
			at = len(block.Held)
			held[instance{c.Target, c.AA}] = at
			block.Held = append(block.Held, trial.Held{Driver: job.Driver, Spec: job.Spec, Copies: job.Copies})
		}
		if visits[c.Group] == nil {
			groups = append(groups, c.Group)
		}
		turns := p.jobOf(c).Turns
		visits[c.Group] = append(visits[c.Group], trial.Visit{Held: at, Turn: len(block.Held[at].Turns)})
		block.Held[at].Turns = append(block.Held[at].Turns, trial.Turn{
			Seq: t.Seq, Cell: c.ID, Name: turns.Name, Bytes: turns.Bytes,
			Device: turns.Evidence == sample.EvidenceCached || turns.Evidence == sample.EvidenceDevice,
		})
	}
	targets := make([]int, len(groups))
	for i, g := range groups {
		targets[i] = len(visits[g])
	}
	for _, round := range schedule.Rounds(targets, p.roundsOf(first), p.seedOf(first.Set, block.Block)) {
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

// turnTime is roughly what a turn takes besides its slice: the way there and back.
const turnTime = 300 * time.Microsecond

// expectedRounds is a rough length of a cell's part of a block.
func (p *Plan) expectedRounds(c study.Cell) time.Duration {
	served := 0
	for _, other := range p.Manifest.Cells {
		if other.Set == c.Set && other.Target == c.Target && other.AA == c.AA {
			served++
		}
	}
	start := aroundTrial + time.Duration(c.Copies)*(p.drivers[c.Target].Properties().StartTime+aroundInstance)
	turns := time.Duration(p.roundsOf(c)+1) * (cmp.Or(p.Manifest.Study.Slice, study.DefaultSlice) + turnTime)
	return start/time.Duration(max(1, served)) + turns
}
