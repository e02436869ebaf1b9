// Package preflight decides whether this machine can measure what a study asks
// for. requirements is the one ordered list of what is asked; each requirement
// looks at the study, its cells, the facts of the machine and the properties of
// the drivers, and refuses the run, skips a cell or notes something, with the
// reason. Nothing is measured and nothing is changed here.
package preflight

import (
	"context"
	"errors"
	"slices"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
)

// Stage says when a requirement can be looked at.
type Stage int

// The stages of a plan.
const (
	BeforeTargets Stage = iota // the study is valid; no target was proven
	BeforeTrials               // the targets are proven, the cells are expanded
)

// requirement is one thing that a measurement needs.
type requirement struct {
	Name  string // unique, lower case
	Stage Stage
	// Look returns what stands against the question, or should be known. Its error
	// is that this cannot be found out.
	Look func(context.Context, *Question) ([]Outcome, error)
}

// requirements are all requirements, in the order in which they are looked at.
func requirements() []requirement {
	return []requirement{
		{"cgroups", BeforeTargets, cgroups},
		{"settings", BeforeTargets, settings},
		{"addresses", BeforeTargets, addresses},
		{"waits", BeforeTargets, waits},
		{"probes", BeforeTargets, probes},
		{"optional probes", BeforeTargets, optionalProbes},
		{"architecture", BeforeTargets, architecture},
		{"parameters", BeforeTargets, parameters},
		{"programs", BeforeTargets, programs},
		{"CPUs", BeforeTargets, cpus},
		{"optional environments", BeforeTargets, optionalLevels},
		{"load", BeforeTrials, eachCell(loads)},
		{"image", BeforeTrials, eachCell(images)},
		{nameBoots, BeforeTrials, eachCell(boots)},
		{"guest", BeforeTrials, eachCell(guest)},
		{nameNetwork, BeforeTrials, eachCell(network)},
		{nameVerbs, BeforeTrials, eachCell(verbs)},
		{"something to compare", BeforeTrials, comparisons},
		{"control of each comparison", BeforeTrials, controls},
		{"machine of its own", BeforeTrials, eachCell(ownMachine)},
		{"Docker host", BeforeTrials, dockerHosts},
		{nameCapacity, BeforeTrials, capacity},
		{"required targets", BeforeTrials, requiredTargets},
		{"memory limits", BeforeTrials, memoryLimits},
		{"blocks", BeforeTrials, blocks},
	}
}

// Requirements that others look back at.
const (
	nameBoots    = "boots"
	nameNetwork  = "network"
	nameVerbs    = "verbs"
	nameCapacity = "capacity"
)

// Verdict is what follows from an outcome.
type Verdict int

// The verdicts.
const (
	Note   Verdict = iota // the user should know
	Skip                  // Outcome.Of is not measured
	Refuse                // nothing is measured
)

// Outcome is what a requirement found.
type Outcome struct {
	Verdict Verdict
	Of      string // the cell's ID, or the name of an optional probe, environment or workload; "" for the whole study
	Reason  error  // what failed, the value seen, what to do
}

// Question is what is to be measured, and with what. The requirements of
// BeforeTargets use Study, Wanted, Foreign, AllowSysctl and Lacks, those of
// BeforeTrials the rest besides.
type Question struct {
	Study       study.Study
	Wanted      []driver.Driver     // all that the study asks for, proven or not
	Foreign     map[string][]string // targets of other architectures, each with these
	AllowSysctl bool                // settings of the whole machine may be changed
	// Lacks returns why the programs of a workload cannot be had; nil where they can.
	Lacks func(study.Workload) error

	Cells   []study.Cell
	Targets map[string]Target // of the cells, by name
	Job     func(study.Cell) workload.Job
	// Exact: the numbers of instances were asked for, so that a cell without room is
	// refused and not skipped.
	Exact bool

	Machine Machine

	skipped []skipped
}

// Target is a target that was proven.
type Target struct {
	Driver driver.Driver
	Facts  driver.Facts
}

// skipped is a cell that a requirement has taken away.
type skipped struct {
	by     string // the requirement's name
	cell   study.Cell
	reason error
}

// skippedBy are the cells that these requirements have taken away.
func (q *Question) skippedBy(names ...string) []skipped {
	return slices.DeleteFunc(slices.Clone(q.skipped), func(s skipped) bool { return !slices.Contains(names, s.by) })
}

// many reports whether a cell's instances are measured as one.
func (q *Question) many(c study.Cell) bool { return c.Concurrency > 0 || q.Job(c).Hold }

// Answer is what is left to measure.
type Answer struct {
	Cells   []study.Cell      // without those that are skipped
	Probes  []string          // the study's optional probes that work
	Skipped map[string]string // why, by the ID of a cell or the name of a probe, an environment or a workload
	Notes   []string          // what the user should know before it starts
}

// RefusedError is the refusal of a whole run. Where its reason is a
// *driver.CannotError the machine lacks something, else what was asked for is wrong.
type RefusedError struct {
	Requirement string
	Reason      error
}

func (e *RefusedError) Error() string { return e.Reason.Error() }

// Unwrap gives the reason.
func (e *RefusedError) Unwrap() error { return e.Reason }

// Check looks at the requirements of a stage in their order. The first that refuses
// ends it with a *RefusedError. A requirement sees what those before it have left.
func Check(ctx context.Context, stage Stage, q Question) (Answer, error) {
	a := Answer{Skipped: map[string]string{}}
	for _, r := range requirements() {
		if r.Stage != stage {
			continue
		}
		outcomes, err := r.Look(ctx, &q)
		if err != nil {
			return a, err
		}
		for _, o := range outcomes {
			switch o.Verdict {
			case Refuse:
				return a, &RefusedError{r.Name, o.Reason}
			case Skip:
				q.skip(r.Name, o)
				a.Skipped[o.Of] = o.Reason.Error()
			case Note:
				a.Notes = append(a.Notes, o.Reason.Error())
			}
		}
	}
	a.Cells, a.Probes = q.Cells, q.Study.OptionalProbes
	return a, nil
}

// skip takes a cell or an optional probe out of the question.
func (q *Question) skip(by string, o Outcome) {
	var left []study.Cell
	for _, c := range q.Cells {
		if c.ID == o.Of {
			q.skipped = append(q.skipped, skipped{by, c, o.Reason})
			continue
		}
		left = append(left, c)
	}
	q.Cells = left
	q.Study.OptionalProbes = slices.DeleteFunc(slices.Clone(q.Study.OptionalProbes), func(p string) bool { return p == o.Of })
}

// eachCell looks at every cell by itself. look returns no reason where nothing is to say.
func eachCell(look func(context.Context, *Question, study.Cell) (Outcome, error)) func(context.Context, *Question) ([]Outcome, error) {
	return func(ctx context.Context, q *Question) ([]Outcome, error) {
		var all []Outcome
		for _, c := range q.Cells {
			o, err := look(ctx, q, c)
			if err != nil {
				return nil, err
			}
			if o.Reason != nil {
				o.Of = c.ID
				all = append(all, o)
			}
		}
		return all, nil
	}
}

// refuse is the outcome of a requirement that the whole study fails.
func refuse(reason error) []Outcome { return []Outcome{{Verdict: Refuse, Reason: reason}} }

// cannot reports whether an error says that the machine lacks something: an answer.
// Other errors of a proof are failures of the laboratory.
func cannot(err error) bool { return errors.As(err, new(*driver.CannotError)) }
