package lab

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/netpath"
	"github.com/tarelab/tare/internal/preflight"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/schedule"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/trial"
	"github.com/tarelab/tare/internal/vmm"
)

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
			records, err := l.make(ctx, runner, p, []schedule.Trial{{Seq: len(p.trials) + made, Block: schedule.Cold, Cell: i}}, 1)
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
	p.fitRuns()
	whole := newPace(p, nil).left()
	p.Estimate = newEnding(p.Manifest.Study, 0).left(whole)
	for _, i := range slices.Sorted(maps.Keys(scatters)) {
		c := p.Manifest.Cells[i]
		pilot := p.Manifest.Pilot[c.Group]
		pilot.MinimumDetectable = p.foresee(c, scatters[i], p.blocksWithin(c, p.Estimate, whole))
		p.Manifest.Pilot[c.Group] = pilot
	}
	return nil
}

// Preparation that took this long, and this share of the estimate, is reported next to it.
const (
	longPreparation      = 10 * time.Second
	longPreparationShare = 0.1
)

// notePreparation reports how long it took until the plan was ready, where that is long:
// the estimate is of the run alone.
func (p *Plan) notePreparation(took time.Duration) {
	if took >= longPreparation && float64(took) >= longPreparationShare*float64(p.Estimate) {
		p.Notes = append(p.Notes, fmt.Sprintf("what came before this plan (images, proofs of the targets, the pilot) took %s, which is not part of the estimate", took.Round(time.Second)))
	}
}

// blocksWithin is how many of a cell's planned blocks a run makes that ends after spent, where
// all of them take whole. Rounds give way, so of these there are budgetBlocks at least.
func (p *Plan) blocksWithin(c study.Cell, spent, whole time.Duration) int {
	blocks := p.blocksOf(c)
	if spent >= whole {
		return blocks
	}
	least := 1
	if p.inRounds() {
		least = min(blocks, budgetBlocks)
	}
	return max(least, int(float64(blocks)*float64(spent)/float64(whole)))
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
	if c.Runs > 1 { // a block counts with the median of all pairs, whose error for normal noise is this
		scatter *= math.Sqrt(math.Pi / 3 / float64(c.Runs))
	}
	noise := func(r *rand.Rand) float64 { return scatter * r.NormFloat64() }
	twin := slices.ContainsFunc(p.Manifest.Cells, func(o study.Cell) bool { return o.AA && o.Group == c.Group })
	level := 1 - st.LastAlpha(blocks)/float64(max(1, p.compared()[c.Group]))
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

// inRounds says whether cells are measured in rounds, which give way to a budget.
func (p *Plan) inRounds() bool {
	return slices.ContainsFunc(p.Manifest.Cells, func(c study.Cell) bool { return c.Set != "" })
}

// runsShare of what a block's time has left after one trial of each cell goes to more
// trials outside of its rounds, where a budget is short.
const runsShare = 0.25

// fitRuns gives cells of several runs a block as many as their workload's time and the
// budget have room for, and plans the trials again.
func (p *Plan) fitRuns() {
	p.fitWithin()
	if p.Manifest.Study.Budget > 0 {
		p.fitEmulated()
		p.fitBudget()
	}
	p.trials = TrialsOf(p.Manifest)
	p.Manifest.Trials = len(p.trials)
}

// fitWithin gives cells as many runs as their workload's time has room for, one at least.
func (p *Plan) fitWithin() {
	cells := p.Manifest.Cells
	for i, c := range cells {
		if c.Runs < 2 {
			continue
		}
		if within := p.workloadOf(c).Within; within > 0 {
			cells[i].Runs = max(1, min(c.Runs, int(within/max(1, p.expected(c)))))
		}
	}
}

// fitBudget takes runs away where a block of the budget has no room for all of them.
func (p *Plan) fitBudget() {
	m := &p.Manifest
	room := float64(newEnding(m.Study, 0).room(0, m.Study.Budget, 0))
	first, more := 0.0, 0.0 // the first runs of a block, and the others
	for _, c := range m.Cells {
		if c.Set == "" {
			first += float64(p.expected(c)) * min(1, float64(p.blocksOf(c))/float64(min(m.Study.Blocks, budgetBlocks)))
			more += float64(p.expected(c)) * float64(max(1, c.Runs)-1)
		}
	}
	if p.inRounds() {
		room = first + runsShare*(room-first)
	}
	if more == 0 || first+more <= room {
		return
	}
	share := max(0, room-first) / more
	asked, left := 0, 0
	for i, c := range m.Cells {
		if c.Runs > 1 {
			m.Cells[i].Runs = 1 + int(math.Round(share*float64(c.Runs-1)))
			asked, left = max(asked, c.Runs), max(left, m.Cells[i].Runs)
		}
	}
	p.Notes = append(p.Notes, fmt.Sprintf("the budget of %v leaves each block %s of a cell in place of %d", m.Study.Budget, quantity.Count(left, "run"), asked))
}

// fitEmulated keeps a target's cells that get no verdict, because its CPU is emulated and the
// control's is not, to as many blocks as an interval takes: a budget is better spent on
// others. Several such targets are compared with each other, and memory with the control.
func (p *Plan) fitEmulated() {
	m := &p.Manifest
	emulated := func(target string) bool { return m.Targets[target].Notes[driver.NoteAccel] == string(vmm.TCG) }
	several := map[string]int{} // emulated cells, by group
	for _, c := range m.Cells {
		if emulated(c.Target) {
			several[c.Group]++
		}
	}
	for i, c := range m.Cells {
		if c.Set != "" || several[c.Group] != 1 || !emulated(c.Target) || emulated(m.Study.Control) ||
			p.Primary(c).Unit == sample.Bytes || p.blocksOf(c) <= stats.MinimumBlocks {
			continue
		}
		m.Cells[i].Blocks = stats.MinimumBlocks
		p.Notes = append(p.Notes, fmt.Sprintf("the budget of %v measures %s in the first %d blocks alone: its CPU is emulated, so its speed gets no verdict", m.Study.Budget, c.ID, stats.MinimumBlocks))
	}
}

// expectedBlock is a rough length of a block with all cells.
func (p *Plan) expectedBlock() (sum time.Duration) {
	for _, c := range p.Manifest.Cells {
		sum += time.Duration(max(1, c.Runs)) * p.expected(c)
	}
	return sum
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
