package lab

import (
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/fake"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/vmm"
	"github.com/tarelab/tare/internal/workload"
)

// A run does not go on with another engine, of which a user's own shows no binary.
func TestRunsDoNotGoOnWithAnotherEngine(t *testing.T) {
	of := func(version string) store.Manifest {
		return store.Manifest{Targets: map[string]driver.Facts{"docker": {Version: version}}}
	}
	if err := sameGround(of("20.10.24"), of("20.10.24")); err != nil {
		t.Error(err)
	}
	if err := sameGround(of("20.10.24"), of("28.0.1")); err == nil || !strings.Contains(err.Error(), "target docker is not what it was when the run began: it was 20.10.24, and is 28.0.1;") {
		t.Error(err)
	}
}

// A run does not go on with other guests than it began with. An older run does not
// say with which, and of kernels the digest counts, not the path.
func TestRunsDoNotGoOnWithOtherGuests(t *testing.T) {
	began := &driver.Guest{Kernel: "/old/vmlinux", Memory: 1 << 30}
	for _, c := range []struct {
		before *driver.Guest
		now    driver.Guest
		want   string
	}{
		{began, *began, ""},
		{began, driver.Guest{Kernel: "/new/vmlinux", Memory: 1 << 30}, ""},
		{nil, driver.Guest{Memory: 1 << 30}, ""},
		{began, driver.Guest{Kernel: "/old/vmlinux"}, "is asked now: nothing beside tare's defaults; and was when the run began: memory 1GiB"},
		{&driver.Guest{}, driver.Guest{Append: "quiet", Disk: true}, `is asked now: parameters "quiet", root as a disk; and was when the run began: nothing`},
	} {
		if err := sameGuest(c.before, c.now); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v after %v: %v, want %q", c.now, c.before, err, c.want)
		}
	}
}

// A pilot is made for cells whose own blocks can give a verdict: one that foresees
// nothing only lengthens the run.
func TestPilotsGoByTheCellsBlocks(t *testing.T) {
	p := &Plan{Manifest: store.Manifest{Study: study.Study{Blocks: 10}}, jobs: map[jobKey]workload.Job{
		{"sysbench", ""}: {Command: workload.Command{Length: 3 * time.Second}}, {"start", ""}: {}, {"hold", ""}: {Command: workload.Command{Hold: true}},
	}}
	for name, c := range map[string]struct {
		workload string
		blocks   int
		want     int
	}{
		"all blocks":                    {"sysbench", 0, pilotTrials},
		"two blocks":                    {"sysbench", 2, 0},
		"two, of a length not known":    {"start", 2, 1},
		"held, which takes its time":    {"hold", 0, 0},
		"enough, of a length not known": {"start", 6, pilotTrials},
	} {
		if got := p.pilotsOf(study.Cell{Workload: c.workload, Blocks: c.blocks}); got != c.want {
			t.Errorf("%s: %d trials, want %d", name, got, c.want)
		}
	}
}

// A plan foresees what the blocks can show that its budget leaves. Rounds give way to it.
func TestBlocksWithinABudget(t *testing.T) {
	for _, c := range []struct {
		blocks      int
		set         string
		time, whole time.Duration
		want        int
	}{
		{12, "", time.Minute, time.Minute, 12},
		{100, "", time.Minute, 10 * time.Minute, 10},
		{100, "", time.Second, time.Hour, 1},
		{100, "rounds-1", time.Second, time.Hour, budgetBlocks},
		{100, "rounds-1", time.Minute, 4 * time.Minute, 25},
		{7, "rounds-1", time.Second, time.Hour, 7},
	} {
		p := &Plan{Manifest: store.Manifest{Study: study.Study{Blocks: c.blocks}, Cells: []study.Cell{{Set: c.set}}}}
		if got := p.blocksWithin(study.Cell{}, c.time, c.whole); got != c.want {
			t.Errorf("%d blocks of %v in %v: %d, want %d", c.blocks, c.whole, c.time, got, c.want)
		}
	}
}

// A cell has as many runs a block as its workload's time has room for, and one at least.
func TestRunsWithin(t *testing.T) {
	for _, c := range []struct {
		within time.Duration
		want   int
	}{{0, 5}, {time.Hour, 5}, {3500 * time.Millisecond, 3}, {time.Millisecond, 1}} {
		p := &Plan{
			Manifest: store.Manifest{
				Study: study.Study{Blocks: 2, Workloads: []study.Workload{{Name: "start", Runs: 5, Within: c.within}}},
				Cells: []study.Cell{{Workload: "start", Group: "start", Target: "x", Copies: 1, Runs: 5}},
			},
			drivers: map[string]driver.Driver{"x": &fake.Driver{Props: driver.Properties{StartTime: time.Second - aroundTrial - aroundInstance}}},
			jobs:    map[jobKey]workload.Job{{"start", ""}: {}},
		}
		p.fitRuns()
		if got := p.Manifest.Cells[0].Runs; got != c.want || p.Manifest.Trials != 1+2*c.want {
			t.Errorf("within %v: %d runs of %d trials, want %d", c.within, got, p.Manifest.Trials, c.want)
		}
	}
}

// A cell has as many runs a block as a budget has room for, and one at least.
func TestBudgetsLeaveRuns(t *testing.T) {
	for _, c := range []struct {
		budget time.Duration
		set    string
		want   int
	}{
		{0, "rounds-1", 5},
		{time.Hour, "rounds-1", 5},
		{3 * time.Minute, "rounds-1", 4}, // of 14.4 s a block the starts have 1 s, and a quarter of the rest
		{3 * time.Minute, "", 5},         // they have all of it
		{10 * time.Second, "rounds-1", 1},
	} {
		p := &Plan{
			Manifest: store.Manifest{Study: study.Study{Blocks: 100, Budget: c.budget, Workloads: []study.Workload{{Name: "start"}, {Name: "rate"}}}, Cells: []study.Cell{
				{Workload: "start", Group: "start", Target: "x", Copies: 1, Runs: 5}, {Workload: "rate", Target: "x", Copies: 1, Set: c.set},
			}},
			drivers: map[string]driver.Driver{"x": &fake.Driver{Props: driver.Properties{StartTime: time.Second - aroundTrial - aroundInstance}}},
			jobs:    map[jobKey]workload.Job{{"start", ""}: {}, {"rate", ""}: {}},
		}
		p.fitRuns()
		if got := p.Manifest.Cells[0].Runs; got != c.want || (got < 5) != (len(p.Notes) == 1) {
			t.Errorf("a budget of %v with %q: %d runs, want %d; %q", c.budget, c.set, got, c.want, p.Notes)
		}
	}
}

// Short trials are made more often in a pilot, long ones no oftener than it takes.
func TestPilotsOfShortTrials(t *testing.T) {
	for name, c := range map[string]struct {
		trials int
		each   time.Duration
		want   int
	}{
		"short":             {pilotTrials, 10 * time.Millisecond, mostPilotTrials},
		"longer":            {pilotTrials, 400 * time.Millisecond, 5},
		"long":              {pilotTrials, 3 * time.Second, pilotTrials},
		"one, for its time": {1, time.Millisecond, 1},
	} {
		made := 0
		for another(c.trials, made, time.Duration(made)*c.each) {
			made++
		}
		if made != c.want {
			t.Errorf("%s: %d trials, want %d", name, made, c.want)
		}
	}
}

// What a plan foresees goes by the cells that are compared, and where nothing can
// be shown nothing is said.
func TestPlansForesee(t *testing.T) {
	logs := []float64{0, 0.01, -0.01, 0.02, 0.01, -0.02, 0, 0.01}
	foreseen := func(blocks, others int) (float64, []string) {
		p := &Plan{Manifest: store.Manifest{Study: study.Study{Blocks: blocks, Alpha: 0.05, Margin: 0.02}, Metrics: map[string][]sample.Metric{"w": {{Name: "wall"}}}}}
		control := study.Cell{ID: "host/w", Workload: "w", Group: "w", Control: true}
		p.Manifest.Cells = append(p.Manifest.Cells, control)
		for range others {
			p.Manifest.Cells = append(p.Manifest.Cells, study.Cell{Workload: "w", Group: "w"})
		}
		return p.foresee(control, logs, blocks), p.Notes
	}
	one, said := foreseen(12, 1)
	many, _ := foreseen(12, 30)
	if one <= 0.01 || many <= one || len(said) != 1 || !strings.Contains(said[0], "12 blocks can show an effect of about") {
		t.Errorf("%g for one cell, %g for 30; %q", one, many, said)
	}
	logs[0] = 3
	if least, said := foreseen(12, 1); least < 1 || len(said) != 1 || !strings.Contains(said[0], "an effect of about ×") {
		t.Errorf("a storm: %g: %q", least, said)
	}
	if least, said := foreseen(6, 5); least != 0 || len(said) != 0 {
		t.Errorf("6 blocks cannot give a verdict on 5 cells, and foresee %g: %q", least, said)
	}
}

// The store counts the trials of a manifest's plan as the schedule makes them: with
// sets in rounds, runs, fewer blocks and no cold trials.
func TestPlansCanGoOn(t *testing.T) {
	no := false
	for _, cold := range []*bool{nil, &no} {
		m := store.Manifest{
			Study: study.Study{Blocks: 7, Cold: cold, Workloads: []study.Workload{{Name: "w", Kind: "start"}}},
			Cells: []study.Cell{
				{ID: "a", Workload: "w", Runs: 5}, {ID: "b", Workload: "w", Blocks: 3}, {ID: "c", Workload: "w", Blocks: 9, Runs: 2},
				{ID: "d", Workload: "w", Set: "rounds-1"}, {ID: "e", Workload: "w", Set: "rounds-1"},
			},
			Metrics: map[string][]sample.Metric{"w": {{Name: sample.Wall, Unit: sample.Seconds}}},
		}
		m.Trials = len(TrialsOf(m))
		if err := m.CanGoOn(); err != nil {
			t.Errorf("cold %v: %v", cold == nil, err)
		}
	}
}

// A budget measures what gets no verdict in as few blocks as have an interval.
func TestBudgetsKeepEmulatedGuestsShort(t *testing.T) {
	for name, c := range map[string]struct {
		budget  time.Duration
		control string
		unit    sample.Unit
		more    string // a further target
		want    int
	}{
		"no budget":        {0, "host", sample.Seconds, "native", 0},
		"one guest":        {time.Hour, "host", sample.Seconds, "native", stats.MinimumBlocks},
		"emulated control": {time.Hour, "other", sample.Seconds, "native", 0},
		"of each other":    {time.Hour, "host", sample.Seconds, "other", 0},
		"judged by memory": {time.Hour, "host", sample.Bytes, "native", 0},
	} {
		tcg := driver.Facts{Notes: map[string]string{driver.NoteAccel: string(vmm.TCG)}}
		cell := func(target string) study.Cell {
			return study.Cell{Workload: "start", Group: "start", Target: target, Control: target == c.control, Copies: 1}
		}
		p := &Plan{
			Manifest: store.Manifest{
				Study:   study.Study{Blocks: 100, Budget: c.budget, Control: c.control},
				Metrics: map[string][]sample.Metric{"start": {{Name: "x", Unit: c.unit}}},
				Targets: map[string]driver.Facts{"host": {}, "native": {}, "other": tcg, "guest": tcg},
				Cells:   []study.Cell{cell(c.control), cell("guest"), cell(c.more)},
			},
			drivers: map[string]driver.Driver{c.control: &fake.Driver{}, "guest": &fake.Driver{}, c.more: &fake.Driver{}},
			jobs:    map[jobKey]workload.Job{{"start", ""}: {}},
		}
		p.fitRuns()
		if got := p.Manifest.Cells[1].Blocks; got != c.want || (got > 0) != (len(p.Notes) == 1) || p.Manifest.Cells[0].Blocks != 0 || p.Manifest.Cells[2].Blocks != 0 {
			t.Errorf("%s: %d blocks, want %d; %q", name, got, c.want, p.Notes)
		}
	}
}

// With a budget, a target whose turns are slow has the control's time, and its twin all rounds.
func TestBudgetsVisitSlowTargetsLess(t *testing.T) {
	cells := []study.Cell{
		{ID: "host/w", Group: "w", Control: true}, {ID: "twin/w", Group: "w", AA: true},
		{ID: "near/w", Group: "w"}, {ID: "far/w", Group: "w"}, {ID: "unseen/w", Group: "w"},
		{ID: "far/x", Group: "x"},                                            // a group without a control
		{ID: "host/y", Group: "y", Control: true}, {ID: "far/y", Group: "y"}, // and one whose control failed
	}
	turns := func(cell string, each int64) sample.Record {
		return sample.Record{Cell: cell, Slices: &sample.Slices{From: []int64{0, 100, 200}, To: []int64{each, 100 + each, 900}}}
	}
	records := []sample.Record{
		turns("host/w", 10), turns("twin/w", 50), turns("near/w", 20), turns("far/w", 40), turns("far/x", 40), turns("far/y", 40),
		{Cell: "unseen/w", Failure: &sample.Failure{}},
	}
	for budget, want := range map[time.Duration][]float64{
		0:         {1, 1, 1, 1, 1, 1, 1, 1},
		time.Hour: {1, 1, 1, 0.25, 1, 1, 1, 1},
	} {
		p := &Plan{Manifest: store.Manifest{Study: study.Study{Budget: budget}, Cells: cells}, turns: map[string]time.Duration{}}
		p.learnTurns(records)
		for i, c := range cells {
			if got := p.slowShare(c); got != want[i] {
				t.Errorf("budget %v: %s takes part in %v of its rounds, want %v", budget, c.ID, got, want[i])
			}
		}
	}
}

// The parts of a run that its budget ends are those of the trials that it has room for: of
// what is in the first blocks alone that is all.
func TestPartsOfABudget(t *testing.T) {
	second := &fake.Driver{Props: driver.Properties{StartTime: time.Second - aroundTrial - aroundInstance}}
	no := false
	p := &Plan{
		Manifest: store.Manifest{Study: study.Study{Blocks: 100, Budget: time.Minute, Cold: &no}, Cells: []study.Cell{
			{Workload: "start", Group: "start", Target: "x", Copies: 1, Blocks: 6}, {Workload: "rate", Group: "rate", Target: "x", Copies: 1},
		}},
		Run:      &store.Run{},
		drivers:  map[string]driver.Driver{"x": second},
		jobs:     map[jobKey]workload.Job{{"start", ""}: {}, {"rate", ""}: {}},
		Estimate: time.Minute,
	}
	p.trials = TrialsOf(p.Manifest)
	for _, part := range p.partsBy(ByWorkload) {
		if want := map[string]time.Duration{"start": 6 * time.Second, "rate": 54 * time.Second}[part.Name]; part.Time != want {
			t.Errorf("%s takes %v, want %v", part.Name, part.Time, want)
		}
	}
}

// A run whose trials stand in another order, as other versions made it, does not go on.
func TestRunsOfAnotherOrderDoNotGoOn(t *testing.T) {
	cells := []study.Cell{{ID: "host/w", Target: "host", Workload: "w", Group: "w", Control: true, Copies: 1}, {ID: "runc/w", Target: "runc", Workload: "w", Group: "w", Copies: 1, Runs: 3}}
	m := store.Manifest{Study: study.Study{Targets: []string{"host", "runc"}, Workloads: []study.Workload{{Kind: "start", Name: "w"}}, Blocks: 2}.WithDefaults(), Cells: cells, Seed: 4}
	trials := TrialsOf(m)
	m.Trials = len(trials)
	for _, shift := range []int{0, 1} {
		run, err := store.Create(t.TempDir(), m)
		if err != nil {
			t.Fatal(err)
		}
		for seq := range 6 {
			of := trials[seq+shift]
			if err := run.Append(sample.Record{Seq: seq, Block: of.Block, Cell: cells[of.Cell].ID, Values: map[string][]float64{"wall": {1}}}); err != nil {
				t.Fatal(err)
			}
		}
		err = sameOrder(&Plan{Manifest: run.Manifest(), Run: run, trials: trials})
		if told := err != nil && strings.Contains(err.Error(), "ordered its trials otherwise"); told != (shift > 0) {
			t.Errorf("shifted by %d: %v", shift, err)
		}
		if err := run.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// What took long before the plan was ready is reported: a run whose plan announced 4 min 38 s
// had its report after 8 minutes.
func TestPlansReportALongPreparation(t *testing.T) {
	for name, c := range map[string]struct {
		took, estimate time.Duration
		want           string
	}{
		"half of all":          {202 * time.Second, 278 * time.Second, "what came before this plan (images, proofs of the targets, the pilot) took 3m22s, which is not part of the estimate"},
		"short":                {2 * time.Second, 3 * time.Second, ""},
		"little of a long run": {time.Minute, time.Hour, ""},
	} {
		p := Plan{Estimate: c.estimate}
		p.notePreparation(c.took)
		if got := strings.Join(p.Notes, "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
