package unixbench

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
)

// side is one of two machines that are compared.
type side struct {
	Name   string `json:"name"`   // as the user gave it
	Target string `json:"target"` // that the tests ran in, one instance of it
	// Machine has of a run the CPUs that its instances might use, where they have a
	// copy for each, of a publication those of the machine; zeroes where not known.
	Machine     cpus   `json:"machine"`
	ClockSource string `json:"clockSource"` // how GHz and Clocks are known
	// Clocks are the rates in GHz that were measured while the tests ran, by
	// environment; GHz is then their mean. Nil where the rate is known otherwise.
	Clocks     map[string]float64 `json:"clocks,omitempty"`
	Bare       bool               `json:"bare"`               // the target is the host itself, no container
	Window     string             `json:"window"`             // length of the tests' timed windows, "" where it is not one
	OwnWindows bool               `json:"ownWindows"`         // every test has UnixBench's own
	Whetstone  string             `json:"whetstone"`          // variant: "kept" or "as-compiled"; "" where not known or not run
	Build      string             `json:"build"`              // of the programs: static or dynamic; "" of a publication, whose are dynamic
	Published  bool               `json:"published"`          // from a publication: one number a test, without its scatter
	Emulated   string             `json:"emulated,omitempty"` // why its times mean nothing
	Refused    string             `json:"refused,omitempty"`  // why its run carries no claim (refusals)
	// RefusedTests are those that carry none in a run that is not refused.
	RefusedTests []refusedTest       `json:"refusedTests,omitempty"`
	Provenance   analysis.Provenance `json:"-"`
	Library      string              `json:"library,omitempty"` // that dynamic programs ran with, as programs has it; Digests likewise
	Digests      map[string]string   `json:"digests,omitempty"`
	// Scores are the repetitions of each test, by environment and name, and by
	// block; a test with a score by CPU time too stands there twice.
	Scores map[string]scoring `json:"-"`
}

// scoring are the scores of the tests of one environment: by test and block.
type scoring map[string]map[int]float64

// machineRow is one test of two machines.
type machineRow struct {
	machineRatio
	A        float64        `json:"a"`        // score, mean over repetitions; an index is the geometric mean of such
	B        float64        `json:"b"`        // the same
	Interval stats.Interval `json:"interval"` // of Ratio
	// The same of PerCore, PerThread and PerGHz, which are Ratio times a number that
	// counts as exact; zeroes where that is not known.
	PerCoreInterval   stats.Interval `json:"perCoreInterval"`
	PerThreadInterval stats.Interval `json:"perThreadInterval"`
	PerGHzInterval    stats.Interval `json:"perGHzInterval"`
	// Refused says why nothing is claimed of the row, "" where something may be.
	Refused string `json:"refused,omitempty"`
}

// machineTable is the tests of two machines in one environment.
type machineTable struct {
	Environment string       `json:"environment"`
	Tests       []string     `json:"tests"`                 // that the row "index" holds
	AsPublished []string     `json:"asPublished,omitempty"` // that the row "index as published" holds; none without that row
	Rows        []machineRow `json:"rows"`
}

// comparison is machine A by machine B.
type comparison struct {
	A        side           `json:"a"`
	B        side           `json:"b"`
	Tables   []machineTable `json:"tables"`
	Warnings []string       `json:"warnings,omitempty"`
	Note     string         `json:"note"` // how the intervals were made
}

// emulatedError says that a side's times are an emulator's.
type emulatedError struct{ Name, Why string }

// Error says why, and what to do.
func (e *emulatedError) Error() string {
	return fmt.Sprintf("%s ran on an emulated CPU (%s): its scores are the emulator's and say nothing of a machine's speed; compare runs of real machines", e.Name, e.Why)
}

// publishedHosts are the machines of docker-on-loongson, in the order of its tables.
func publishedHosts(d *source) []string {
	return slices.Clone(d.Tables[platformN].Hosts)
}

// publishedSide is a machine of docker-on-loongson in one container.
func publishedSide(d *source, host string) (side, error) {
	h, ok := d.Hosts[host]
	if !ok {
		return side{}, fmt.Errorf("%s describes no machine %q", d.ID, host)
	}
	name := "published:" + d.ID + "/" + host
	s := side{
		Name: name, Target: "one container", Published: true, ClockSource: "as published",
		Machine:    cpus{Cores: h.Cores, Threads: h.Threads(), GHz: h.ClockGHz},
		Provenance: analysis.Provenance{Run: name, Kernel: h.Kernel, OS: h.OS},
		Scores:     map[string]scoring{},
	}
	for _, t := range publishedTables() {
		if t.platforms == "" {
			continue
		}
		scores, err := d.Scores(t.platforms, host)
		if err != nil {
			return side{}, err
		}
		s.Scores[t.environment] = scoring{}
		for test, v := range scores {
			if test == indexName {
				test = indexAsPublished
			}
			s.Scores[t.environment][test] = map[int]float64{0: v}
		}
	}
	return s, nil
}

// byWall is the name of a test's score by wall time, where published rows are
// by CPU time.
func byWall(test string) string { return test + " (wall time)" }

// scoresOfTarget are the scores of one target alone, by environment and test, as
// side takes them: Whetstone's by CPU time under its own name.
func scoresOfTarget(in input, target string) map[string]scoring {
	out := map[string]scoring{}
	curves := curvesOf(in)
	for _, c := range curves {
		one := c.At(1)
		if c.Target != target || one == nil || len(one.Repetitions) == 0 {
			continue
		}
		if out[c.Environment] == nil {
			out[c.Environment] = scoring{}
		}
		name := c.Test
		if c.Clock == wallClock && find(curves, target, c.Environment, c.Test, cpuClock) != nil {
			name = byWall(c.Test)
		}
		out[c.Environment][name] = one.blocks
	}
	for _, scores := range out {
		if !slices.ContainsFunc(allTests(), func(test string) bool { return len(scores[test]) == 0 }) && len(scores[byWall("whetstone")]) > 0 {
			scores[indexAsPublished] = scores.index(allTests())
		}
	}
	return out
}

// clockMetrics are what trials tell of the clock, in Hz, the better first.
var clockMetrics = []struct{ metric, source string }{{sample.ClockCounted, "cycle counter"}, {sample.ClockCPUFreq, "cpufreq, the fastest CPU"}}

// clocksOf are the rates in GHz at which CPUs ran the tests of one target alone,
// by environment: means over the trials that measured it. source says how, and in
// which tests. Nil and "" where no trial did.
func clocksOf(in input, target string) (clocks map[string]float64, source string) {
	cells := map[string]study.Cell{}
	for _, c := range in.Cells {
		if c.Target == target && c.Copies <= 1 && !c.AA {
			cells[c.ID] = c
		}
	}
	for _, m := range clockMetrics {
		rates, tests := map[string][]float64{}, map[string]bool{}
		for _, r := range in.Records {
			c, ok := cells[r.Cell]
			if v := r.Values[m.metric]; ok && r.Block >= 0 && len(v) == 1 && v[0] > 0 && !math.IsInf(v[0], 0) {
				for _, environment := range c.Environments() {
					rates[environment] = append(rates[environment], v[0]/1e9)
				}
				tests[c.Workload] = true
			}
		}
		if len(rates) == 0 {
			continue
		}
		clocks = map[string]float64{}
		for environment, ghz := range rates {
			clocks[environment] = stats.Mean(ghz)
		}
		return clocks, m.source + ", while " + strings.Join(slices.Sorted(maps.Keys(tests)), ", ") + " ran"
	}
	return nil, ""
}

// MeasureClock sets a side's clock to what the run's trials measured; where they
// did not, it stays as it is.
func (s *side) MeasureClock(in input) {
	clocks, source := clocksOf(in, s.Target)
	if clocks == nil {
		return
	}
	s.Clocks, s.ClockSource, s.Machine.GHz = clocks, source, stats.Mean(slices.Sorted(maps.Values(clocks)))
}

// targetsOf are the targets of a run with a Unix score of one instance, the
// control last: what a machine is compared by is a container where there is one.
func targetsOf(in input) []string {
	var out, control []string
	for _, c := range curvesOf(in) {
		if c.At(1) == nil || slices.Contains(out, c.Target) || slices.Contains(control, c.Target) {
			continue
		}
		if slices.ContainsFunc(in.Cells, func(cell study.Cell) bool { return cell.Target == c.Target && cell.Control }) {
			control = append(control, c.Target)
			continue
		}
		out = append(out, c.Target)
	}
	return append(out, control...)
}

// compareSides sets machine a against b. It refuses emulated sides with an
// *emulatedError, and fails where they have no test in common.
func compareSides(a, b side) (comparison, error) {
	for _, s := range []side{a, b} {
		if s.Emulated != "" {
			return comparison{}, &emulatedError{s.Name, s.Emulated}
		}
	}
	m := comparison{A: a, B: b}
	for _, environment := range environmentsOf(a, b) {
		if t := compareTable(a, b, environment); len(t.Rows) > 0 {
			m.Tables = append(m.Tables, t)
		}
	}
	if len(m.Tables) == 0 {
		return comparison{}, fmt.Errorf("%s and %s have no Unix test in common: %s against %s", a.Name, b.Name, a.inventory(), b.inventory())
	}
	m.Warnings, m.Note = machineWarnings(a, b), sidesNote(m)
	return m, nil
}

// inventory names what a side holds.
func (s side) inventory() string {
	var parts []string
	for _, e := range slices.Sorted(maps.Keys(s.Scores)) {
		parts = append(parts, fmt.Sprintf("%s (%s)", cmp.Or(e, "no limits"), strings.Join(slices.Sorted(maps.Keys(s.Scores[e])), ", ")))
	}
	return cmp.Or(strings.Join(parts, "; "), "nothing")
}

// environmentsOf are those of both sides: n copies, one copy, then the others.
func environmentsOf(a, b side) []string {
	var out []string
	add := func(e string) {
		_, inA := a.Scores[e]
		_, inB := b.Scores[e]
		if inA && inB && !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	add(envAllN)
	add(envAllOne)
	for _, e := range slices.Sorted(maps.Keys(a.Scores)) {
		add(e)
	}
	return out
}

// testOrder is the order of tests in reports: the published tables', with the
// file copies where UnixBench has them.
func testOrder() []string {
	return []string{
		"dhrystone2", "whetstone", byWall("whetstone"), "execl", "file-copy-1024", "file-copy-256", "file-copy-4096",
		"pipe-throughput", "pipe-context-switch", "process-creation", "shell-1", "shell-8", "syscall",
	}
}

// allTests are the tests of UnixBench's index, which was published.
func allTests() []string {
	return slices.DeleteFunc(testOrder(), func(s string) bool { return s == byWall("whetstone") })
}

// compareTable compares what both have in one environment, and indexes over it:
// over the common tests, Whetstone by CPU time, and as published where both are.
func compareTable(a, b side, environment string) machineTable {
	x, y := maps.Clone(a.Scores[environment]), maps.Clone(b.Scores[environment])
	var names []string
	for name := range x {
		if _, both := y[name]; both {
			names = append(names, name)
		}
	}
	rank := func(name string) int {
		if i := slices.Index(testOrder(), name); i >= 0 {
			return i
		}
		return len(testOrder())
	}
	slices.Sort(names)
	slices.SortStableFunc(names, func(p, q string) int { return rank(p) - rank(q) })
	t := machineTable{Environment: environment}
	for _, name := range names {
		if name != indexAsPublished && !strings.HasSuffix(name, byWall("")) {
			t.Tests = append(t.Tests, name)
		}
	}
	order := slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == indexAsPublished })
	if len(t.Tests) > 0 {
		x[indexName], y[indexName] = x.index(t.Tests), y.index(t.Tests)
		order = append(order, indexName)
	}
	if len(order) < len(names)+1 && slices.Contains(names, indexAsPublished) {
		order = append(order, indexAsPublished)
		t.AsPublished = allTests()
	}
	a.Scores, b.Scores = map[string]scoring{environment: x}, map[string]scoring{environment: y}
	for _, side := range []*side{&a, &b} {
		if side.Clocks != nil {
			side.Machine.GHz = side.Clocks[environment]
		}
	}
	t.Rows = machineRows(order, t, a, b)
	for i := range t.Rows {
		t.Rows[i].Refused = cmp.Or(a.refused(t, t.Rows[i].Test), b.refused(t, t.Rows[i].Test))
	}
	return t
}

// refused is why a side claims nothing of a row of a table.
func (s side) refused(t machineTable, row string) string {
	r := refusal{Run: s.Refused, Tests: s.RefusedTests}
	why := r.Of(t.Environment, strings.TrimSuffix(row, byWall("")))
	switch row {
	case indexName:
		why = r.ofIndex(t.Environment, t.Tests)
	case indexAsPublished:
		why = r.ofIndex(t.Environment, t.AsPublished)
	}
	if why == "" {
		return ""
	}
	return s.Name + ": " + why
}

// index are the geometric means over tests, block by block, of the blocks in which
// all of them have a score.
func (s scoring) index(tests []string) map[int]float64 {
	sums, count := map[int]float64{}, map[int]int{}
	for _, t := range tests {
		for block, v := range s[t] {
			sums[block] += math.Log(v) / float64(len(tests))
			count[block]++
		}
	}
	out := map[int]float64{}
	for block, sum := range sums {
		if count[block] == len(tests) {
			out[block] = math.Exp(sum)
		}
	}
	return out
}

// typical is a row's score: the mean over the repetitions, of an index the
// geometric mean of its tests' means, as describe has it. A publication's own
// index is a number, which holds tests that it does not list.
func (s scoring) typical(row string, tests []string) float64 {
	if len(tests) == 0 || slices.ContainsFunc(tests, func(t string) bool { return len(s[t]) == 0 }) {
		return stats.Mean(inOrder(s[row]))
	}
	sum := 0.
	for _, t := range tests {
		sum += math.Log(stats.Mean(inOrder(s[t])))
	}
	return math.Exp(sum / float64(len(tests)))
}

func machineRows(order []string, t machineTable, a, b side) []machineRow {
	x, y := a.Scores[t.Environment], b.Scores[t.Environment]
	holds := map[string][]string{indexName: t.Tests, indexAsPublished: t.AsPublished}
	at, against := map[string]float64{}, map[string]float64{}
	for _, row := range order {
		at[row], against[row] = x.typical(row, holds[row]), y.typical(row, holds[row])
	}
	if t.Environment != envAllN { // one copy does not use the cores that would divide it
		a.Machine.Cores, a.Machine.Threads = 0, 0
	}
	var rows []machineRow
	for _, r := range machineRatios(order, at, against, a.Machine, b.Machine) {
		row := machineRow{machineRatio: r, A: at[r.Test], B: against[r.Test], Interval: stats.None(r.Ratio)}
		if a.scatters(x[r.Test]) && b.scatters(y[r.Test]) {
			row.Interval = stats.Welch(r.Ratio, inOrder(x[r.Test]), inOrder(y[r.Test]))
		}
		row.scaleIntervals()
		rows = append(rows, row)
	}
	return rows
}

// scaleIntervals brings the interval of the ratio to the common measures.
func (r *machineRow) scaleIntervals() {
	for _, per := range []struct {
		ratio float64
		to    *stats.Interval
	}{{r.PerCore, &r.PerCoreInterval}, {r.PerThread, &r.PerThreadInterval}, {r.PerGHz, &r.PerGHzInterval}} {
		if per.ratio > 0 {
			*per.to = stats.Scaled(r.Interval, per.ratio/r.Ratio)
		}
	}
}

// scatters says whether an interval may count with a side's scores: a run's
// single repetition says nothing of its scatter. A publication's, which nobody
// can repeat, counts as exact.
func (s side) scatters(scores map[int]float64) bool { return s.Published || len(scores) > 1 }

// variantKept is the default variant of Whetstone.
const variantKept = "kept"

// variantAsCompiled lets the compiler leave out what it can, as in UnixBench.
const variantAsCompiled = "as-compiled"

// keptText is what it means beside published scores (docs/unix-index.md,
// "Proof that the work was done").
const keptText = "is of the variant kept, in which the compiler can leave nothing out: about a fifth lower than as-compiled, as UnixBench's own is"

// sidesNote says how the intervals were made, and why there are none.
func sidesNote(m comparison) string {
	with, without := 0, 0
	for _, t := range m.Tables {
		for _, r := range t.Rows {
			if r.Interval.Method == stats.MethodWelch {
				with++
			} else {
				without++
			}
		}
	}
	var text string
	switch {
	case m.A.Published && m.B.Published:
		text = "Published scores come without their scatter, so there is no interval"
	case with == 0:
		text = "There is no interval: a run of one repetition says nothing of its scatter"
	default:
		text = "Intervals are Welch's t at 95 % on the logarithms of the repetitions; the clocks count as exact"
		if m.A.Published || m.B.Published {
			text += "; the published side comes without its scatter and counts as exact, so they are too narrow"
		}
		if without > 0 {
			text += "; a run of one repetition has no interval"
		}
	}
	return text + ". Whetstone is by CPU time, as UnixBench 5.1.3 takes it, unless it says wall time. One copy uses one core, so it is not divided by cores or threads."
}

// machineWarnings are what differs beside the machines, which differ on purpose.
func machineWarnings(a, b side) []string {
	p, q := a.Provenance, b.Provenance
	for _, side := range []*analysis.Provenance{&p, &q} {
		side.CPU, side.CPUs, side.Usable, side.Memory, side.Host = "", "", "", "", ""
	}
	out := analysis.Residue(p, q)
	if p.OS != "" && q.OS != "" && p.OS != q.OS {
		out = append(out, fmt.Sprintf("%s and %s differ in operating system: %s against %s; published shell tests ran the programs of theirs, runs those of their image", p.Run, q.Run, p.OS, q.OS))
	}
	for _, s := range []side{a, b} {
		if s.Refused != "" {
			out = append([]string{fmt.Sprintf("%s is refused: %s. The ratios describe that run, not the machine", s.Name, s.Refused)}, out...)
		} else if len(s.RefusedTests) > 0 {
			out = append([]string{fmt.Sprintf("%s: refused, with the indexes that hold them: %s", s.Name, tellRefused(s.RefusedTests))}, out...)
		}
		if s.Published {
			out = append(out, fmt.Sprintf("%s: compiler, flags and image of the published scores are not known, and they are of UnixBench's own programs", s.Name))
		}
		if s.Machine.GHz <= 0 {
			out = append(out, fmt.Sprintf("%s: the clock is not known, so nothing is divided by it", s.Name))
		}
		if text := s.undivided(); text != "" {
			out = append(out, s.Name+": "+text)
		}
	}
	if a.ClockSource != b.ClockSource && a.Machine.GHz > 0 && b.Machine.GHz > 0 {
		out = append(out, fmt.Sprintf("the clocks are known in two ways (%s; %s): the ratio per GHz is as doubtful as the weaker one", a.ClockSource, b.ClockSource))
	}
	out = append(out, conditionWarnings(a, b)...)
	if a.Target != b.Target && !a.Published && !b.Published {
		out = append(out, fmt.Sprintf("the tests ran in two targets, %s against %s: choose one with --target", a.Target, b.Target))
	}
	return out
}

// undivided says that scores are not divided by cores or hardware threads, and
// why; "" where they are, or where no instance has a copy for each CPU.
func (s side) undivided() string {
	switch {
	case s.Scores[envAllN] == nil:
		return ""
	case s.Machine.Threads <= 0:
		return "it is not known which CPUs it might use (an older tare did not record them), so nothing is divided by cores or hardware threads"
	case s.Machine.Cores <= 0:
		return "the number of cores that it might use is not known, so nothing is divided by it"
	}
	return ""
}

// conditionWarnings are what a run did otherwise than the other side.
func conditionWarnings(a, b side) []string {
	var out []string
	for _, pair := range [][2]side{{a, b}, {b, a}} {
		run, other := pair[0], pair[1]
		if !other.Published || run.Published {
			continue
		}
		if run.Bare {
			out = append(out, fmt.Sprintf("%s ran on the host, the published scores are of one container: measure in a container, or mind its cost", run.Name))
		}
		if run.Window != "" && !run.OwnWindows {
			out = append(out, fmt.Sprintf("%s has windows of %s, UnixBench of 10 to 60 s: whetstone is lower by up to a tenth in short ones, and scores scatter more", run.Name, run.Window))
		}
		if strings.Contains(run.Build, workload.UnixStatic) {
			out = append(out, fmt.Sprintf("%s ran static programs, the published scores are of dynamic ones: execl and process-creation are higher for it; measure with --set build=dynamic", run.Name))
		}
		if run.Whetstone == variantKept {
			out = append(out, fmt.Sprintf("%s: whetstone %s", run.Name, keptText))
		}
	}
	if a.Build != "" && b.Build != "" && a.Build != b.Build {
		out = append(out, fmt.Sprintf("%s ran %s programs and %s %s ones: execl and process-creation score higher with static ones, so measure both alike (tare index has --static, studies --set build=static)", a.Name, a.Build, b.Name, b.Build))
	}
	if a.Library != "" && b.Library != "" && (a.Library != b.Library || otherBits(a.Digests, b.Digests)) {
		out = append(out, fmt.Sprintf("%s ran with %s and %s with %s: execl, process-creation and the scripts tell of the C library, too", a.Name, a.ran(), b.Name, b.ran()))
	}
	if a.Window != "" && b.Window != "" && a.Window != b.Window {
		out = append(out, fmt.Sprintf("%s has windows of %s and %s of %s: compare windows of one length", a.Name, a.Window, b.Name, b.Window))
	}
	if a.Whetstone != "" && b.Whetstone != "" && a.Whetstone != b.Whetstone {
		out = append(out, fmt.Sprintf("whetstone is of the variant %s in %s and %s in %s: their ratio is the variant's, too", a.Whetstone, a.Name, b.Whetstone, b.Name))
	}
	return out
}

func (s side) ran() string { return s.Library + programs{Digests: s.Digests}.files() }

// otherBits reports whether files of the same names have other digests. Interpreters of
// other names are another architecture's, whose bits differ anyway.
func otherBits(a, b map[string]string) bool {
	sameNames := maps.EqualFunc(a, b, func(_, _ string) bool { return true })
	return sameNames && !maps.Equal(a, b)
}
