package analysis

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// sliced is a cell's record of one block: rate says how many iterations a nanosecond
// it does in a round, and how far the machine is then.
func sliced(cell string, block, rounds int, rate func(round int) float64) *sample.Record {
	s := &sample.Slices{}
	for r := range rounds {
		const own = 5_000_000
		s.Round = append(s.Round, r)
		s.Count = append(s.Count, rate(r)*own)
		s.Own = append(s.Own, own)
		s.CPU = append(s.CPU, own/2)
		s.From = append(s.From, int64(r)*6_000_000)
		s.To = append(s.To, int64(r)*6_000_000+own+10_000)
	}
	middle := rate(rounds / 2)
	return &sample.Record{Block: block, Cell: cell, Slices: s, Values: map[string][]float64{sample.SliceRate: {middle * 1e9}}}
}

var slicedCells = []study.Cell{
	{ID: "host/x", Target: "host", Workload: "x", Group: "x", Control: true, Copies: 1},
	{ID: "host~aa/x", Target: "host", Workload: "x", Group: "x", AA: true, Copies: 1},
	{ID: "runc/x", Target: "runc", Workload: "x", Group: "x", Copies: 1},
}

func slicedInput(evidence sample.Evidence, records ...*sample.Record) Input {
	d := NewData(slicedCells, len(records))
	for _, r := range records {
		d.Add(r)
	}
	return Input{
		Cells: slicedCells, Data: d, Blocks: 9, Planned: len(records), Seed: 1,
		Metrics:  map[string][]sample.Metric{"x": sample.Describe(sample.SliceRate, sample.CPUEach)},
		Evidence: map[string]sample.Evidence{"x": evidence},
	}
}

// A machine whose speed wanders by a factor of three, slower than a round, and slices
// that each scatter by 2 %: the ratio comes out within 1 %, and the twin at 1. Medians of
// the blocks, compared as such, are off by tens of percent.
func TestRatiosWithinRoundsCancelDrift(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	const blocks, rounds, slower = 9, 25, 0.95
	var records []*sample.Record
	for b := range blocks {
		speed := make([]float64, rounds)
		for r := range speed {
			speed[r] = 0.02 * math.Exp(math.Sin(float64(r+b*7)/4)*0.55)
		}
		own := func(factor float64, lag int) func(int) float64 {
			return func(r int) float64 {
				return factor * speed[(r+lag)%rounds] * math.Exp(0.02*random.NormFloat64())
			}
		}
		records = append(records, sliced("host/x", b, rounds, own(1, 0)), sliced("host~aa/x", b, rounds, own(1, 0)), sliced("runc/x", b, rounds, own(slower, 0)))
	}
	in := slicedInput(sample.EvidenceChecked, records...)
	table := Analyze(in).Tables[0]
	for i, want := range map[int]float64{1: 1, 2: slower} {
		e := table.Rows[i].Effect
		if e == nil || math.Abs(e.Ratio/want-1) > 0.01 || e.Interval.High/e.Interval.Low > 1.03 {
			t.Errorf("%s: %+v, want a ratio of %v", table.Rows[i].Label, e, want)
		}
	}
}

// The machine gets faster by half from the first third of a run to the last, and its
// hypervisor steals a fifth of the time. Both are warnings; what was compared in rounds
// keeps its verdict.
func TestNoiseIsToldInRounds(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 8))
	var records []*sample.Record
	for b := range stats.BootstrapFrom {
		at := func(factor float64) func(int) float64 {
			return func(int) float64 { return factor * (1 + float64(b)/10) * math.Exp(0.02*random.NormFloat64()) }
		}
		records = append(records, sliced("host/x", b, 25, at(1)), sliced("host~aa/x", b, 25, at(1)), sliced("runc/x", b, 25, at(0.9)))
	}
	for _, r := range records {
		r.Values[sample.Wall], r.Values[sample.Steal] = []float64{1}, []float64{0.2}
	}
	claims := Analyze(slicedInput(sample.EvidenceChecked, records...))
	if v := claims.Tables[0].Rows[2].Effect.Verdict; v != Slower {
		t.Errorf("a rate that is 10 %% lower in every round is %s", v)
	}
	for _, noise := range []string{"drifted", "the hypervisor stole"} {
		if !slices.ContainsFunc(Texts(claims.Warnings), func(s string) bool { return strings.Contains(s, noise) }) {
			t.Errorf("%s: not told: %q", noise, claims.Warnings)
		}
	}
}

// A cell of which more than a tenth of the slices stalled is named, once.
func TestManyStalledSlicesAreTold(t *testing.T) {
	var records []*sample.Record
	for b := range 9 {
		for _, cell := range slicedCells {
			r := sliced(cell.ID, b, 20, func(round int) float64 { return 1 + float64(round+b)/1000 })
			r.Slices.Stalled = []int{3}
			if cell.Target == "runc" {
				r.Slices.Stalled = []int{3, 7, 11}
			}
			records = append(records, r)
		}
	}
	said := slices.DeleteFunc(Texts(Analyze(slicedInput(sample.EvidenceChecked, records...)).Warnings),
		func(s string) bool { return !strings.Contains(s, "as long as") })
	if len(said) != 1 || said[0] != "x: runc: 27 of 180 slices took more than three times as long as they were to take" {
		t.Errorf("%q", said)
	}
}

// On a noisy machine the worst cells are named, and the others counted.
func TestManyStalledCells(t *testing.T) {
	all := []stall{{"a", 0.2}, {"b", 0.5}, {"c", 0.3}, {"d", 0.9}, {"e", 0.3}, {"f", 0.1}, {"g", 0.4}}
	if got := worstStalls(all, "it was slow"); !slices.Equal(got, []string{"d", "b", "g", "c", "e", "in 2 more cells, it was slow"}) {
		t.Errorf("%q", got)
	}
	if got := worstStalls(all[:mostStalls], ""); len(got) != mostStalls {
		t.Errorf("%q", got)
	}
}

// A start that took long is named, though its block has others, whose median hides it.
func TestOneFarStartOfABlock(t *testing.T) {
	d := NewData(slicedCells, 0)
	for b := range 9 {
		for n := range 5 {
			for _, cell := range slicedCells {
				wall := 1 + float64(b+n)/100
				if cell.Target == "runc" && b == 4 && n == 2 {
					wall = 40
				}
				d.Add(&sample.Record{Block: b, Cell: cell.ID, Values: map[string][]float64{sample.Wall: {wall}}})
			}
		}
	}
	in := Input{Cells: slicedCells, Data: d, Blocks: 9, Seed: 1, Metrics: map[string][]sample.Metric{"x": sample.Describe(sample.Wall)}}
	far := "x: runc: 1 of 45 trials lies far from the cell's own median (40 s where the median is 1.06)"
	if said := Texts(Analyze(in).Warnings); !slices.Contains(said, far) {
		t.Errorf("%q", said)
	}
}

// Values that a block's rounds share in part are paired by their round, and a block that
// one side lacks is left out.
func TestPairsAreOfTheSameRound(t *testing.T) {
	control, cell := &column{}, &column{}
	nan := math.NaN()
	for name, c := range map[string]struct {
		cell, control []float64
		want          float64
		ok            bool
	}{
		"equal":       {[]float64{1, 2, 4}, []float64{1, 2, 4}, 0, true},
		"missing":     {[]float64{nan, 2, 8}, []float64{1, 2, 4}, math.Log(2) / 2, true},
		"shorter":     {[]float64{2}, []float64{1, 9, 9}, math.Log(2), true},
		"no round":    {[]float64{nan, 1}, []float64{1}, 0, false},
		"one outlier": {[]float64{1, 1, 100}, []float64{1, 1, 1}, 0, true},
	} {
		got := stands(paired{inCommon([][]float64{c.cell, c.control}), false})
		if (got != nil) != c.ok || c.ok && math.Abs(got[0]-got[1]-c.want) > 1e-12 {
			t.Errorf("%s: %v, want a difference of %v, %v", name, got, c.want, c.ok)
		}
	}
	control.addSlices(0, sliced("", 0, 3, func(int) float64 { return 1 }).Slices)
	cell.addSlices(1, sliced("", 1, 3, func(int) float64 { return 1 }).Slices)
	control.blocks, control.metrics = []int32{0}, map[string]*series{sample.SliceRate: {values: []float64{1e9}}}
	if got := cell.against(control, sample.SliceRate); len(got.values) != 0 {
		t.Errorf("blocks without a partner gave %v", got)
	}
}

// Lists of unequal lengths, and rounds and numbers that no slice has, are ignored.
func TestOddSlicesAreIgnored(t *testing.T) {
	c := &column{}
	c.addSlices(0, &sample.Slices{
		Round: []int{-1, 1 << 40, 2, 3, 4}, Count: []float64{1, 1, 0, math.Inf(1), 7}, Own: []int64{1, 1, 1, 1, 1}, From: []int64{0, 0, 0, 0}, To: []int64{1, 1, 1, 1, 1},
	})
	if c.inRounds(sample.SliceRate) {
		t.Errorf("%+v", c.rounds)
	}
}

func TestWorkMustBeProven(t *testing.T) {
	mb := 1e6
	for name, c := range map[string]struct {
		kind          sample.Evidence
		host, runc    sample.Slices
		refused, twin string // what the reasons hold; "" for none
	}{
		"checked":         {kind: sample.EvidenceChecked},
		"none":            {kind: sample.EvidenceNone},
		"cached":          {sample.EvidenceCached, sample.Slices{Bytes: mb, Device: ptr(0)}, sample.Slices{Bytes: mb, Device: ptr(0.005 * mb)}, "", ""},
		"not cached":      {sample.EvidenceCached, sample.Slices{Bytes: mb, Device: ptr(0)}, sample.Slices{Bytes: mb, Device: ptr(0.2 * mb)}, "on runc devices moved 20 %", ""},
		"device":          {sample.EvidenceDevice, sample.Slices{Bytes: mb, Device: ptr(mb)}, sample.Slices{Bytes: mb, Device: ptr(0.95 * mb)}, "", ""},
		"from memory":     {sample.EvidenceDevice, sample.Slices{Bytes: mb, Device: ptr(mb)}, sample.Slices{Bytes: mb, Device: ptr(0)}, "on runc devices moved 0 %", ""},
		"uncounted":       {sample.EvidenceDevice, sample.Slices{Bytes: mb, Device: ptr(mb)}, sample.Slices{Bytes: mb}, "on runc nothing counts", ""},
		"no bytes":        {sample.EvidenceDevice, sample.Slices{Bytes: mb, Device: ptr(mb)}, sample.Slices{Device: ptr(mb)}, "on runc the program named no bytes", ""},
		"too many bytes":  {sample.EvidenceCached, sample.Slices{Bytes: mb, Device: ptr(0.0)}, sample.Slices{Bytes: math.MaxFloat64, Device: ptr(math.MaxFloat64)}, "on runc the program named no bytes", ""},
		"control":         {sample.EvidenceDevice, sample.Slices{Bytes: mb}, sample.Slices{Bytes: mb, Device: ptr(mb)}, "on host nothing counts", "on host"},
		"not direct":      {sample.EvidenceDevice, sample.Slices{Bytes: mb, Device: ptr(mb)}, sample.Slices{Bytes: mb, Device: ptr(mb), Said: []string{"direct=no"}}, "refused direct I/O", ""},
		"same sum":        {sample.EvidenceSum, sample.Slices{Said: []string{"check=a1"}}, sample.Slices{Said: []string{"check=a1"}}, "", ""},
		"other sum":       {sample.EvidenceSum, sample.Slices{Said: []string{"check=a1"}}, sample.Slices{Said: []string{"check=b2"}}, "b2 on runc and a1 on host", ""},
		"no sum":          {sample.EvidenceSum, sample.Slices{Said: []string{"check=a1"}}, sample.Slices{}, "on runc the program named no checksum", ""},
		"changing sum":    {sample.EvidenceSum, sample.Slices{Said: []string{"check=a1"}}, sample.Slices{Said: []string{"check=a1", "check=b2"}}, "on runc the checksum changed", ""},
		"words, no check": {sample.EvidenceChecked, sample.Slices{Said: []string{"mode=a"}}, sample.Slices{Said: []string{"mode=b"}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var records []*sample.Record
			for b := range 9 {
				for id, work := range map[string]sample.Slices{"host/x": c.host, "host~aa/x": c.host, "runc/x": c.runc} {
					r := sliced(id, b, 5, func(int) float64 { return 1 })
					r.Slices.Bytes, r.Slices.Device, r.Slices.Said = work.Bytes, work.Device, work.Said
					records = append(records, r)
				}
			}
			in := slicedInput(c.kind, records...)
			for id, want := range map[string]string{"runc/x": c.refused, "host~aa/x": c.twin} {
				why := in.unproven(in.Data.cells[id], in.Data.cells["host/x"], map[bool]string{true: "runc", false: "host"}[id == "runc/x"], "host", "x")
				if (why == "") != (want == "") || !strings.Contains(why, want) {
					t.Errorf("%s: %q, want %q", id, why, want)
				}
			}
			claims := Analyze(in)
			told := slices.ContainsFunc(Texts(claims.Warnings), func(s string) bool { return strings.Contains(s, "nothing proves") })
			if none := c.kind == sample.EvidenceNone; told != none {
				t.Errorf("the report warns that nothing proves the work: %v, want %v", told, none)
			}
			e := claims.Tables[0].Rows[2].Effect
			if (e.Verdict == NotComparable) != (c.refused != "") || !strings.Contains(e.Why, c.refused) {
				t.Errorf("verdict %s, %q, want %q", e.Verdict, e.Why, c.refused)
			}
		})
	}
}

func ptr(v float64) *float64 { return &v }

// A rung of cells in rounds stands to the base as its slices do, however fast the
// blocks were: one of them ran at a third of the others' speed.
func TestLadderOfRounds(t *testing.T) {
	var records []*sample.Record
	for b := range 9 {
		speed := 0.01 * float64(1+b%3)
		at := func(factor float64) func(int) float64 {
			return func(r int) float64 { return factor * speed * (1 + 0.001*float64((r+b)%3)) }
		}
		records = append(records, sliced("host/x", b, 20, at(1)), sliced("host~aa/x", b, 20, at(1)), sliced("runc/x", b, 20, at(0.8)))
	}
	in := slicedInput(sample.EvidenceChecked, records...)
	in.View = study.ViewLadder
	ladders := Analyze(in).Ladders
	if len(ladders) == 0 || len(ladders[0].Steps) != 1 {
		t.Fatalf("%+v, want one step", ladders)
	}
	l, step := ladders[0], ladders[0].Steps[0]
	if got := step.Delta / l.BaseMedian; math.Abs(got+0.2) > 1e-6 || step.Interval.High-step.Interval.Low > 0.001*l.BaseMedian {
		t.Errorf("a step of %v %v from %v, want a fifth less", step.Delta, step.Interval, l.BaseMedian)
	}
	if l.BaseInterval.High < 1.5*l.BaseInterval.Low {
		t.Errorf("the base's own interval %v does not show how the blocks differ", l.BaseInterval)
	}
}

// slicedRun is a run in rounds: its slices stand to the host's as the factors say, while the
// blocks' medians say something else. said are the words of a cell's slices.
func slicedRun(seed uint64, evidence sample.Evidence, factors map[string]float64, said map[string]string) Input {
	random := rand.New(rand.NewPCG(seed, 11))
	var records []*sample.Record
	for b := range 9 {
		for _, c := range slicedCells {
			factor, ok := factors[c.ID]
			if !ok {
				factor = 1
			}
			r := sliced(c.ID, b, 25, func(int) float64 { return factor * math.Exp(0.002*random.NormFloat64()) })
			r.Values[sample.SliceRate][0] *= math.Exp(0.1 * random.NormFloat64())
			r.Slices.Bytes, r.Slices.Device = 1e6, ptr(1e6)
			if word := said[c.ID]; word != "" {
				r.Slices.Said = []string{word}
			}
			records = append(records, r)
		}
	}
	return slicedInput(evidence, records...)
}

// Two runs are compared by the ratios that each run alone claims: within rounds. A run that is
// refused alone, because its twin differs there, is refused here.
func TestCompareWithinRounds(t *testing.T) {
	before, after := map[string]float64{"runc/x": 0.95}, map[string]float64{"runc/x": 0.76}
	row := Compare(slicedRun(1, sample.EvidenceChecked, before, nil), slicedRun(2, sample.EvidenceChecked, after, nil)).Comparisons[0].Rows[2]
	if e := row.Effect; math.Abs(e.Ratio/0.8-1) > 0.01 || e.Verdict != Slower {
		t.Errorf("a slowdown of 20 %%: %+v", e)
	}
	after["host~aa/x"] = 0.9
	a, b := slicedRun(1, sample.EvidenceChecked, before, nil), slicedRun(2, sample.EvidenceChecked, after, nil)
	if Analyze(b).Tables[0].Refused == "" {
		t.Fatal("the run alone is not refused")
	}
	for _, pair := range [][2]Input{{a, b}, {b, a}} {
		if e := Compare(pair[0], pair[1]).Comparisons[0].Rows[2].Effect; e.Verdict != NotComparable || !strings.Contains(e.Why, "differs from its own twin") {
			t.Errorf("%s %q, want a refusal by the twin", e.Verdict, e.Why)
		}
	}
}

// Work that is not proven the same has no verdict between two runs either, nor between two
// levels of one.
func TestOtherWorkIsNotComparable(t *testing.T) {
	words := func(host, runc string) map[string]string {
		return map[string]string{"host/x": host, "host~aa/x": host, "runc/x": runc}
	}
	for name, c := range map[string]struct {
		evidence      sample.Evidence
		before, after map[string]string
		want          string // "" for no refusal
	}{
		"not direct before": {sample.EvidenceDevice, words("", "direct=no"), nil, "In the run before: Not the same work: on runc the file system refused direct I/O"},
		"not direct after":  {sample.EvidenceDevice, nil, words("", "direct=no"), "In the run after: Not the same work: on runc the file system refused direct I/O"},
		"other sum after":   {sample.EvidenceSum, words("check=a1", "check=a1"), words("check=a1", "check=b2"), "In the run after: Not the same work: the checksum is b2 on runc"},
		"other sum of both": {sample.EvidenceSum, words("check=a1", "check=a1"), words("check=b2", "check=b2"), "Not the same work: the checksum is a1 on the run before and b2 on the run after"},
		"other sum always":  {sample.EvidenceSum, words("check=a1", "check=b2"), words("check=a1", "check=b2"), "In the run before: Not the same work: the checksum is b2 on runc"},
		"proven":            {sample.EvidenceSum, words("check=a1", "check=a1"), words("check=a1", "check=a1"), ""},
	} {
		a, b := slicedRun(1, c.evidence, nil, c.before), slicedRun(2, c.evidence, nil, c.after)
		e := Compare(a, b).Comparisons[0].Rows[2].Effect
		if (e.Verdict == NotComparable) != (c.want != "") || !strings.HasPrefix(e.Why, c.want) {
			t.Errorf("%s: %s %q, want %q", name, e.Verdict, e.Why, c.want)
		}
		level := levelOf(t, c.evidence, c.before, c.after)
		if (level.Verdict == NotComparable) != (c.want != "") || strings.HasPrefix(level.Why, "Not the same work") != (c.want != "") {
			t.Errorf("%s, as levels: %s %q, want %q", name, level.Verdict, level.Why, c.want)
		}
	}
}

// levelOf is runc in one environment against another, in which its slices said other words.
func levelOf(t *testing.T, evidence sample.Evidence, before, after map[string]string) *Effect {
	t.Helper()
	in := slicedRun(1, evidence, nil, before)
	full := slicedRun(2, evidence, nil, after)
	for _, c := range slicedCells {
		id := c.ID + "+full"
		in.Data.cells[id] = full.Data.cells[c.ID]
		c.ID, c.Group, c.Environment = id, "x+full", "full"
		in.Cells = append(in.Cells[:len(in.Cells):len(in.Cells)], c)
	}
	for _, l := range in.Levels(Analyze(in).Tables, func(c study.Cell) (string, bool) { return "", c.Target == "runc" }) {
		return l.Contrast.Effect()
	}
	t.Fatal("no level of runc")
	return nil
}

// A contrast that is only described has no verdict but where its tables refuse it.
func TestDescribedContrast(t *testing.T) {
	in := slicedRun(1, sample.EvidenceChecked, map[string]float64{"runc/x": 0.8}, nil)
	tables := Analyze(in).Tables
	of, to := Place{"runc/x", "x", sample.SliceRate}, Place{"host/x", "x", sample.SliceRate}
	if e := in.Contrast(tables, of, to).Described(); e.Verdict != "" || math.Abs(e.Ratio/0.8-1) > 0.01 || e.Interval.Level != describedLevel {
		t.Errorf("%+v", e)
	}
	tables[0].Refused = "The control drifted."
	if e := in.Contrast(tables, of, to).Described(); e.Verdict != "" {
		t.Errorf("the table has a verdict on the cell against its control, and the contrast has none: %+v", e)
	}
	if e := in.Contrast(tables, of, Place{slicedCells[1].ID, "x", sample.SliceRate}).Described(); e.Verdict != NotComparable || e.Why != tables[0].Refused {
		t.Errorf("%+v", e)
	}
	i := slices.IndexFunc(tables[0].Rows, func(r Row) bool { return r.Cell == of.Cell })
	tables[0].Rows[i].Effect = &Effect{Verdict: NotComparable, Why: "Not the same work."}
	if e := in.Contrast(tables, of, to).Described(); e.Verdict != NotComparable || e.Why != "Not the same work." {
		t.Errorf("%+v", e)
	}
	if (*Contrast)(nil).Described() != nil {
		t.Error("a contrast of nothing is described")
	}
}

func TestRefusedPlaces(t *testing.T) {
	refusing := &Effect{Verdict: NotComparable, Why: "Not the same work."}
	table := func(metric string, primary bool, refused string, e *Effect) Table {
		return Table{Group: "x", Metric: sample.Metric{Name: metric}, Primary: primary, Refused: refused,
			Rows: []Row{{Cell: "host/x", Control: true}, {Cell: "runc/x", Effect: e}}}
	}
	fine := &Effect{Verdict: Same}
	for name, c := range map[string]struct {
		tables []Table
		want   string
	}{
		"judged":             {[]Table{table("rate", true, "", fine), table("other", false, "", refusing)}, ""},
		"in spite of noise":  {[]Table{table("rate", true, "Drifted.", fine)}, ""},
		"the table":          {[]Table{table("rate", true, "Drifted.", nil)}, "Drifted."},
		"the row":            {[]Table{table("rate", true, "", refusing)}, "Not the same work."},
		"the metric's table": {[]Table{table("rate", true, "", fine), table("rtt", false, "Drifted.", &Effect{Verdict: NotComparable, Why: "Drifted."})}, "Drifted."},
		"not compared":       {[]Table{table("rate", true, "", nil)}, "It is not compared with its control."},
	} {
		if got := Refused(c.tables, Place{"runc/x", "x", "rtt"}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := Refused([]Table{table("rate", true, "", refusing)}, Place{"host/x", "x", "rate"}); got != "" {
		t.Errorf("the control: %q", got)
	}
	if got := Refused([]Table{table("rate", true, "Drifted.", fine)}, Place{"host/x", "x", "rate"}); got != "Drifted." {
		t.Errorf("the control's own values: %q", got)
	}
}
