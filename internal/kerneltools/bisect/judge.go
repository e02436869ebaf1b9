package bisect

import (
	"fmt"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// Question is what a bisection asks of its runs.
type Question struct {
	Machine  string `json:"machine"` // a target without its kernel, as qemu/microvm
	Workload string `json:"workload"`
	Metric   string `json:"metric"`
	// Looks is how many runs the answer may rest on: the level of each is corrected for
	// all of them.
	Looks int `json:"looks"`
}

// target is the machine with a kernel.
func (q Question) target(kernel string) string { return q.Machine + driver.ProgramSign + kernel }

// emulated is the acceleration of guests whose CPU is emulated.
const emulated = "tcg"

// Reading is what a run says.
type Reading struct {
	Answer Answer `json:"answer"`
	Why    string `json:"why"` // a sentence for each answer
	// Change is the bad end against the good one; nil where they gave no pair of values.
	Change *analysis.Effect `json:"change,omitempty"`
	// Candidate is the candidate against the good end, and Rest the bad end against the
	// candidate; nil as Change.
	Candidate *analysis.Effect `json:"candidate,omitempty"`
	Rest      *analysis.Effect `json:"rest,omitempty"`
	// Middle is the candidate against the geometric mean of both ends; nil as Change.
	Middle   *analysis.Effect `json:"middle,omitempty"`
	Emulated bool             `json:"emulated,omitempty"` // the guests' CPU was
}

// shownReport is a run as it is read here.
type shownReport struct {
	run    *store.Run
	in     analysis.Input
	tables []analysis.Table
	q      Question
}

func (q Question) read(run *store.Run) (shownReport, error) {
	in, out, err := lab.Report(run)
	in.Alpha /= float64(max(1, q.Looks))
	return shownReport{run, in, out.Claims.Tables, q}, err
}

// place finds the kernel's cell. Several of them are an *lab.InputError.
func (r shownReport) place(kernel string) (analysis.Place, error) {
	var cells []study.Cell
	for _, c := range r.run.Manifest().Cells {
		if c.Target == r.q.target(kernel) && c.Workload == r.q.Workload && !c.AA && c.Probe == "" {
			cells = append(cells, c)
		}
	}
	switch len(cells) {
	case 0:
		return analysis.Place{}, nil
	case 1:
		return analysis.Place{Cell: cells[0].ID, Group: cells[0].Group, Metric: r.q.Metric}, nil
	}
	return analysis.Place{}, &lab.InputError{Err: fmt.Errorf("workload %s has %d cells (%s, %s, ...): bisect one that has one number of instances and one environment",
		r.q.Workload, len(cells), cells[0].Group, cells[1].Group)}
}

// failure is why a kernel gave no value, "" where it gave some.
func (r shownReport) failure(kernel string, p analysis.Place) string {
	if why := r.run.Manifest().LeftOut[r.q.target(kernel)]; why != "" {
		return why
	}
	if r.in.Series(p.Cell, p.Metric).Len() > 0 {
		return ""
	}
	for _, t := range r.tables {
		for _, row := range t.Rows {
			if row.Cell == p.Cell && row.Failure != nil {
				return row.Failure.Message
			}
		}
	}
	return "it gave no value of " + p.Metric
}

// accel is what ran the guests' CPU.
func (r shownReport) accel(kernel string) string {
	return r.run.Manifest().Targets[r.q.target(kernel)].Notes[driver.NoteAccel]
}

// Ends judges the bad end against the good one: Bad where they certainly differ, Skipped
// where one of them gave no value, else Open.
func (q Question) Ends(run *store.Run, good, bad string) (Reading, error) {
	r, err := q.read(run)
	if err != nil {
		return Reading{}, err
	}
	return r.ends(good, bad)
}

func (r shownReport) ends(good, bad string) (Reading, error) {
	out := Reading{Answer: Open, Emulated: r.accel(good) == emulated}
	var places []analysis.Place
	for _, kernel := range []string{good, bad} {
		p, err := r.place(kernel)
		if err != nil {
			return out, err
		}
		if why := r.failure(kernel, p); why != "" {
			out.Answer, out.Why = Skipped, fmt.Sprintf("%s cannot be measured: %s", Shown(kernel), why)
			return out, nil
		}
		places = append(places, p)
	}
	if r.accel(good) != r.accel(bad) {
		out.Answer, out.Why = Skipped, r.mixed(good, bad)
		return out, nil
	}
	c := r.in.Contrast(r.tables, places[1], places[0])
	analysis.JudgeTogether([]*analysis.Contrast{c})
	out.Change = c.Effect()
	switch e := out.Change; {
	case e == nil:
		out.Why = "no block has a value of both kernels"
	case e.Difference != nil:
		out.Why = "some values are zero or negative: there is no ratio to halve"
	case e.Verdict.Shown():
		out.Answer, out.Why = Bad, fmt.Sprintf("%s is %s than %s", Shown(bad), e.Size, Shown(good))
	default:
		out.Why = fmt.Sprintf("%s does not certainly differ from %s. %s", Shown(bad), Shown(good), e.Why)
	}
	return out, nil
}

// mixed is why guests under different accelerations are not compared.
func (r shownReport) mixed(a, b string) string {
	return fmt.Sprintf("the guests of %s ran under %s and those of %s under %s, and the two are never compared", Shown(a), r.accel(a), Shown(b), r.accel(b))
}

// Candidate says which end a kernel resembles. It is the end on whose side of the middle
// its whole interval lies. rises says in which direction the bad end differs, as the first
// run found.
func (q Question) Candidate(run *store.Run, good, candidate, bad string, rises bool) (Reading, error) {
	r, err := q.read(run)
	if err != nil {
		return Reading{}, err
	}
	at, err := r.place(candidate)
	if err != nil {
		return Reading{}, err
	}
	if why := r.failure(candidate, at); why != "" {
		return Reading{Answer: Skipped, Why: why}, nil
	}
	if r.accel(candidate) != r.accel(good) {
		return Reading{Answer: Skipped, Why: r.mixed(good, candidate)}, nil
	}
	out, err := r.ends(good, bad)
	if err != nil || out.Answer != Bad {
		out.Answer, out.Why = Open, "in this run the ends cannot be told apart: "+out.Why
		return out, err
	}
	if (out.Change.Ratio > 1) != rises {
		out.Answer, out.Why = Open, "in this run the ends differ in the other direction: something else changed"
		return out, nil
	}
	first, err := r.place(good)
	if err != nil {
		return out, err
	}
	last, err := r.place(bad)
	if err != nil {
		return out, err
	}
	before, after, middle := r.in.Contrast(r.tables, at, first), r.in.Contrast(r.tables, last, at), r.in.Nearer(r.tables, at, first, last)
	for _, c := range []*analysis.Contrast{before, after, middle} { // the answer rests on the last alone
		analysis.JudgeTogether([]*analysis.Contrast{c})
	}
	out.Candidate, out.Rest, out.Middle = before.Effect(), after.Effect(), middle.Effect()
	out.Answer, out.Why = side(out.Middle, rises)
	return out, nil
}

// side is the end on whose side of the middle an effect lies.
func side(e *analysis.Effect, rises bool) (Answer, string) {
	switch {
	case e == nil:
		return Open, "no block has a value of all three kernels"
	case e.Verdict == analysis.NotComparable:
		return Open, e.Why
	case e.Interval.Method == stats.MethodNone || e.Reached > 0:
		return Open, fmt.Sprintf("%d complete blocks are too few: at least %d are needed", e.Blocks, e.Need)
	case e.Interval.Low > 1 && rises, e.Interval.High < 1 && !rises:
		return Bad, "it is certainly nearer to the bad end"
	case e.Interval.Low > 1, e.Interval.High < 1:
		return Good, "it is certainly nearer to the good end"
	}
	why := "its interval contains the middle between both ends"
	if e.Need > e.Blocks {
		why += fmt.Sprintf("; about %d blocks would settle it", e.Need)
	}
	return Open, why
}
