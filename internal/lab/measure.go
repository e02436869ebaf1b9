package lab

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/probe"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/schedule"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/trial"
)

// Event is a step of a measurement, for who watches it.
type Event struct {
	Trial       schedule.Trial
	Cell        study.Cell
	Record      *sample.Record // nil when the trial begins
	Done, Total int            // trials of the run
	Blocks      int
	Left        time.Duration // estimated
}

// Measure carries out what the plan still lacks, in its order. When ctx is
// cancelled the trial under way is given up, and Measure returns ctx.Err(); on a full
// disk it is, too, and the error wraps store.ErrNoSpace.
func (l *Lab) Measure(ctx context.Context, p *Plan, observe func(Event)) error {
	return errors.Join(l.measure(ctx, p, observe), p.Run.Close())
}

func (l *Lab) measure(ctx context.Context, p *Plan, observe func(Event)) error {
	runner := l.runner(p.Run)
	runner.Keep = p.Run.KeepLog
	judge := runner.Judge
	if err := keepBootLogs(ctx, p); err != nil {
		return err
	}
	done := p.Run.Done()
	if err := p.raise(ctx, done); err != nil {
		return err
	}
	p.turns = map[string]time.Duration{}
	pace := newPace(p, done)
	ending := newEnding(p.Manifest.Study, p.expectedBlock())
	var rounds time.Duration // of the block under way
	for i := 0; i < len(p.trials); {
		unit := p.unit(i)
		i += len(unit)
		unit = slices.DeleteFunc(slices.Clone(unit), func(t schedule.Trial) bool { return done[t.Seq] })
		if len(unit) == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		event := func(t schedule.Trial, record *sample.Record) Event {
			return Event{
				Trial: t, Cell: p.Manifest.Cells[t.Cell], Record: record, Total: len(p.trials), Blocks: p.Manifest.Study.Blocks,
				Done: len(done), Left: ending.left(pace.left()),
			}
		}
		first := event(unit[0], nil)
		observe(first)
		runner.Judge = judge
		if p.Manifest.Targets[first.Cell.Target].Notes[driver.NoteUnread] != "" {
			runner.Judge = nil // its own would be told as others'
		}
		began := trial.Now()
		records, err := l.make(ctx, runner, p, unit, ending.share)
		if err != nil {
			return store.NoSpace(err)
		}
		rounds += roundsTime(records)
		p.learnTurns(records)
		took := trial.Now().Sub(began) / time.Duration(len(unit))
		for i, t := range unit {
			pace.learn(t.Cell, took)
			done[t.Seq] = true
			observe(event(t, &records[i]))
		}
		switch {
		case !p.blockEnds(i - 1):
			continue
		case p.trials[i-1].Block == schedule.Cold:
			ending.begin()
			continue
		}
		end, over, err := ending.after(p.trials[i-1].Block, rounds, p.look)
		if err != nil {
			return err
		}
		rounds = 0
		if over {
			return store.NoSpace(p.Run.SetEnd(end))
		}
	}
	return nil
}

// raise has the engines of the trials that are left run and hold the image. What fails
// of that, their trials will tell.
func (p *Plan) raise(ctx context.Context, done map[int]bool) error {
	raised := map[string]bool{}
	for _, t := range p.trials {
		name := p.Manifest.Cells[t.Cell].Target
		if done[t.Seq] || raised[name] {
			continue
		}
		raised[name] = true
		if d, ok := driver.As[driver.SessionDriver](p.drivers[name]); ok {
			bounded, cancel := context.WithTimeout(ctx, checkTimeout+d.Properties().CheckTime)
			_ = d.Setup(bounded, driver.Spec{Rootfs: p.root.Rootfs, Image: p.root.Layout})
			cancel()
		}
	}
	return ctx.Err()
}

func (l *Lab) runner(sink trial.Sink) *trial.Runner {
	return &trial.Runner{
		RunID:  l.session.name,
		Dir:    filepath.Join(l.session.dir, "instances"),
		Groups: l.groups,
		Probes: []trial.Probe{probe.Counts{}, probe.Cgroup{}, probe.Noise{}, probe.Neighbours{}},
		Sink:   sink,
		Limits: func() func() string { return limitsReached(l.groups.session) },
		Judge:  Busy(hostinfo.Gather().CPUs),
	}
}

// When other processes disturb a trial: from this share of all CPUs' time on.
// In a time shorter than the second number the kernel's ticks tell too little.
const (
	busyShare = 0.25
	busyWall  = 0.2
)

// load is what other processes used during a trial of some length, in seconds.
type load struct{ others, wall float64 }

// Busy warns of trials during which other processes used much of the machine's
// CPU time: all that was used, less what the instances and their daemons used.
// Where the instances' own use cannot be read, nothing can be said. A Unix test
// with a short window is judged together with those before it. Starts that are as
// short are not: much of their time is the kernel's, tidying up after the last.
func Busy(cpus int) func(map[string][]float64) []sample.Warning {
	var short []load // the last Unix tests: as few as are long enough together
	return func(values map[string][]float64) []sample.Warning {
		now, known := loadOf(values)
		if !known || now.wall < busyWall && len(values[sample.UnixScore]) == 0 {
			return nil
		}
		sum, trials := now, 0
		if now.wall < busyWall {
			if short = lastLoads(append(short, now)); len(short) > 1 {
				sum, trials = sumLoads(short), len(short)
			}
		}
		share := sum.others / (sum.wall * float64(cpus))
		if sum.wall < busyWall || share < busyShare {
			return nil
		}
		return []sample.Warning{{Kind: sample.Busy, Share: share, Trials: trials}}
	}
}

func loadOf(values map[string][]float64) (l load, known bool) {
	all, own, wall := values[sample.MachineCPU], values[sample.CPU], values[sample.Wall]
	if elapsed := values[sample.Elapsed]; len(elapsed) > 0 {
		wall = elapsed // of many instances, of which single ones took less
	}
	if len(all) == 0 || len(own) == 0 || len(wall) == 0 {
		return load{}, false
	}
	l = load{all[0] - own[0], slices.Max(wall)}
	for _, cpus := range values[sample.BesideCPUs] { // the level's load belongs to the trial
		l.others -= cpus * l.wall
	}
	for _, daemons := range values[sample.DaemonCPU] {
		l.others -= daemons
	}
	return l, true
}

// lastLoads drops the first ones while the rest is long enough.
func lastLoads(all []load) []load {
	for sumLoads(all[1:]).wall >= busyWall {
		all = all[1:]
	}
	return all
}

func sumLoads(all []load) (sum load) {
	for _, l := range all {
		sum.others, sum.wall = sum.others+l.others, sum.wall+l.wall
	}
	return sum
}
