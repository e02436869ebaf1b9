package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/netpath"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/preflight"
	"github.com/tarelab/tare/internal/probe"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/schedule"
	"github.com/tarelab/tare/internal/stats"
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
	pace, ending := newPace(p, done), newEnding(p.Manifest.Study)
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
		records, err := l.make(ctx, runner, p, unit)
		if err != nil {
			return store.NoSpace(err)
		}
		took := trial.Now().Sub(began) / time.Duration(len(unit))
		for i, t := range unit {
			pace.learn(t.Cell, took)
			done[t.Seq] = true
			observe(event(t, &records[i]))
		}
		if !p.blockEnds(i - 1) {
			continue
		}
		end, over, err := ending.after(p.trials[i-1].Block, p.look)
		if err != nil {
			return err
		}
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

// pilotTrials of each group's control tell how much the machine scatters, up to
// mostPilotTrials where they take no longer than pilotTime in all: of few trials
// the scatter is not well known.
const (
	pilotTrials     = 4
	mostPilotTrials = 9
	pilotTime       = 2 * time.Second
	tellPilots      = 5 * time.Second // how often slow ones are told of
)

// pilotFrom is how many blocks an interval, and so a verdict, takes. With fewer
// there is no smallest effect to foresee.
const pilotFrom = 6

// pilotsOf is how many trials of a cell the pilot makes: enough to see their
// scatter, or one to see how long a trial takes where nobody knows, or none.
func (p *Plan) pilotsOf(c study.Cell) int {
	switch {
	case c.Set != "":
		return 0 // its noise is of slices in rounds, not of trials
	case p.many(c), p.jobOf(c).Beside:
		return 0 // too long a trial to be made only to foresee others
	case p.blocksOf(c) >= pilotFrom:
		return pilotTrials
	case p.jobOf(c).Length == 0:
		return 1
	}
	return 0
}

// blocksOf is how many blocks hold a cell.
func (p *Plan) blocksOf(c study.Cell) int { return cmp.Or(c.Blocks, p.Manifest.Study.Blocks) }

// discard keeps no records: a pilot's trials are no samples.
type discard struct{}

func (discard) Append(...sample.Record) error { return nil }

// another says whether a pilot of so many trials makes one more than were made in
// some time.
func another(trials, made int, took time.Duration) bool {
	return made < trials || trials == pilotTrials && made < mostPilotTrials && took < pilotTime
}

// pilot runs each group's control a few times. From their scatter it says how
// small an effect the planned blocks can show, and from their length how long
// the run takes.
func (l *Lab) pilot(ctx context.Context, p *Plan) error {
	runner := l.runner(discard{})
	p.Manifest.Pilot = map[string]store.Pilot{}
	told := trial.Now()
	scatters := map[int][]float64{} // by cell
	for i, c := range p.Manifest.Cells {
		trials := p.pilotsOf(c)
		if !c.Control || c.Probe != "" || trials == 0 {
			continue
		}
		if now := trial.Now(); now.Sub(told) > tellPilots {
			told = now
			l.config.Say("before the plan: the pilot of " + c.ID)
		}
		var logs []float64
		began, made := trial.Now(), 0
		for another(trials, made, trial.Now().Sub(began)) {
			records, err := l.make(ctx, runner, p, []schedule.Trial{{Seq: len(p.trials) + made, Block: schedule.Cold, Cell: i}})
			if err != nil {
				return err
			}
			record := records[0]
			made++
			if record.Failure != nil {
				// The run will show it as what it is; a pilot has nothing to add.
				p.Notes = append(p.Notes, fmt.Sprintf("the pilot of %s failed: %s", c.ID, record.Failure.Message))
				break
			}
			if v := record.Values[p.Primary(c).Name]; made > 1 && len(v) > 0 && v[0] > 0 { // the first is cold
				logs = append(logs, math.Log(v[0]))
			}
		}
		scatters[i] = logs
		p.Manifest.Pilot[c.Group] = store.Pilot{Trial: trial.Now().Sub(began) / time.Duration(made)}
	}
	whole := newPace(p, nil).left()
	p.Estimate = newEnding(p.Manifest.Study).left(whole)
	for _, i := range slices.Sorted(maps.Keys(scatters)) {
		c := p.Manifest.Cells[i]
		pilot := p.Manifest.Pilot[c.Group]
		pilot.MinimumDetectable = p.foresee(c, scatters[i], blocksWithin(p.blocksOf(c), p.Estimate, whole))
		p.Manifest.Pilot[c.Group] = pilot
	}
	return nil
}

// blocksWithin is how many of the planned blocks, which take whole, are made in a time.
func blocksWithin(blocks int, spent, whole time.Duration) int {
	if spent >= whole {
		return blocks
	}
	return max(1, int(float64(blocks)*float64(spent)/float64(whole)))
}

// foresee says how small an effect a control's group can show in so many blocks, by the
// logarithms of what its pilot measured; 0 where that cannot be told.
func (p *Plan) foresee(c study.Cell, logs []float64, blocks int) float64 {
	st := p.Manifest.Study
	if len(logs) < 2 {
		return 0
	}
	low, scatter, high := stats.PilotScatter(logs)
	low, high = low/scatter, high/scatter
	if c.Runs > 1 { // a block counts with their median, whose error for normal noise is this
		scatter *= math.Sqrt(math.Pi / 2 / float64(c.Runs))
	}
	noise := func(r *rand.Rand) float64 { return scatter * r.NormFloat64() }
	twin := slices.ContainsFunc(p.Manifest.Cells, func(o study.Cell) bool { return o.AA && o.Group == c.Group })
	level := 1 - st.LookAlpha(blocks)/float64(max(1, p.compared()[c.Group]))
	least := stats.Detectable(noise, blocks, level, twin, p.Manifest.Seed) // grows with the scatter
	if least == 0 {
		return 0
	}
	size := func(log float64) string {
		effect := stats.FromLog(log)
		if effect >= 1 {
			return fmt.Sprintf("×%.2g", 1+effect)
		}
		return fmt.Sprintf("%.1f %%", 100*effect)
	}
	p.Notes = append(p.Notes, fmt.Sprintf("%s: %d blocks can show an effect of about %s in %s (%s to %s, from a pilot of %d trials)",
		c.Group, blocks, size(least), p.Primary(c).Name, size(least*low), size(least*high), len(logs)))
	return stats.FromLog(least)
}

// Rough times of an instance outside of its payload, for what a plan tells
// before it has begun: making and removing its root and groups, and how much
// of the runtimes' starts and ends is work that instances do one after another.
const (
	aroundTrial    = 80 * time.Millisecond
	aroundInstance = 10 * time.Millisecond
	// Of starts that are under way at once two go on at one time: the kernel's locks
	// let not many more, whatever the CPUs (published: 2,000 in 376 s on 104 of them).
	overlap = 2
)

// expected is a rough length of a cell's trial before any was made: the
// control's in the pilot, or what the payload says of itself, and on top the
// target's own starts.
func (p *Plan) expected(c study.Cell) time.Duration {
	if c.Set != "" {
		return p.expectedRounds(c)
	}
	around := time.Duration(c.Copies) * (p.drivers[c.Target].Properties().StartTime + aroundInstance)
	if on, placed := driver.As[*netpath.Driver](p.drivers[c.Target]); placed {
		around += time.Duration(on.Others(preflight.NetworkOf(c.Limits.Network))) * on.Unwrap().Properties().StartTime
	}
	around /= time.Duration(max(1, min(overlap, p.Manifest.Host.CPUs, cmp.Or(c.Concurrency, c.Copies))))
	group := strings.TrimSuffix(c.Group, "~"+c.Probe) // the twins' pilot is that of those that nothing watches
	if pilot := p.Manifest.Pilot[group].Trial; pilot > 0 {
		return pilot + around
	}
	return p.jobOf(c).Length + aroundTrial + around
}

// pace estimates the time that is left from the trials made so far.
type pace struct{ cells []cellPace }

type cellPace struct {
	kind     string        // of cells whose trials take alike beside what is expected
	expected time.Duration // of one trial, before any was made
	took     time.Duration // by the trials that were made
	made     int
	left     int // trials still to be made
}

func newPace(p *Plan, done map[int]bool) *pace {
	a := &pace{cells: make([]cellPace, len(p.Manifest.Cells))}
	for i, c := range p.Manifest.Cells {
		a.cells[i] = cellPace{kind: c.Target + "/" + c.Workload, expected: p.expected(c)}
	}
	for _, t := range p.trials {
		if !done[t.Seq] {
			a.cells[t.Cell].left++
		}
	}
	return a
}

func (a *pace) learn(cell int, took time.Duration) {
	a.cells[cell].took += took
	a.cells[cell].made++
	a.cells[cell].left--
}

// left takes what was expected of a cell by as much as its kind has shown it to be
// wrong, until the cell itself was made.
func (a *pace) left() time.Duration {
	took, expected := map[string]float64{}, map[string]float64{}
	for _, c := range a.cells {
		took[c.kind] += float64(c.took)
		expected[c.kind] += float64(c.made) * float64(c.expected)
	}
	left := 0.0
	for _, c := range a.cells {
		mean := float64(c.expected)
		switch {
		case c.made > 0:
			mean = float64(c.took) / float64(c.made)
		case expected[c.kind] > 0:
			mean *= took[c.kind] / expected[c.kind]
		}
		left += float64(c.left) * mean
	}
	return time.Duration(left)
}
