package fleet

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/fleet/engine"
	"github.com/tarelab/tare/internal/store"
)

// What is what happened to a machine's job. Beside these, the phases of engine.Phase are
// used while it waits and runs.
type What string

// What happens to a job.
const (
	Submitting   What = "submitting" // written before the engine is asked
	Submitted    What = "submitted"
	Done         What = "done"
	TargetFailed What = "target failed"
	LabFailed    What = "laboratory failed"
	CannotHere   What = "cannot run here"
	Interrupted  What = "interrupted"
	Lost         What = What(engine.Lost)
	Taken        What = What(engine.Taken)
	TooLong      What = What(engine.TooLong)
	OutOfMemory  What = What(engine.OutOfMemory)
	Cancelled    What = What(engine.Cancelled)
	CutOff       What = "cut off"    // its stream has no end
	Damaged      What = "damaged"    // lines of its stream are missing or wrong
	NotPlaced    What = "not placed" // it waited too long for its machine
	Refused      What = "refused"    // by the engine
	Gone         What = "gone"       // the engine does not know it, and nothing came of it
	Removed      What = "removed"    // it is out of the engine
)

// ending is what follows from an end.
type ending struct {
	again bool // another attempt makes sense
	fault Fault
}

// Fault is the side that failed.
type Fault int

// The faults, and none.
const (
	NoFault Fault = iota
	OfTarget
	OfLaboratory
	CannotRun // the machine lacks something
)

var endings = map[What]ending{
	Done: {}, TargetFailed: {fault: OfTarget}, OutOfMemory: {fault: OfTarget}, CannotHere: {fault: CannotRun},
	LabFailed: {fault: OfLaboratory}, Interrupted: {fault: OfLaboratory}, TooLong: {fault: OfLaboratory}, Cancelled: {fault: OfLaboratory},
	NotPlaced: {fault: OfLaboratory}, Refused: {fault: OfLaboratory},
	Lost: {again: true, fault: OfLaboratory}, Taken: {again: true, fault: OfLaboratory}, CutOff: {again: true, fault: OfLaboratory},
	Damaged: {again: true, fault: OfLaboratory}, Gone: {again: true, fault: OfLaboratory},
}

// Event is a line of jobs.jsonl.
type Event struct {
	At      time.Time     `json:"at"`
	Slot    int           `json:"slot"` // counts the machines that are wanted
	Machine string        `json:"machine"`
	Attempt int           `json:"attempt"` // from 1
	Job     string        `json:"job"`
	What    What          `json:"what"`
	State   *engine.State `json:"state,omitempty"` // what the engine said
	Run     string        `json:"run,omitempty"`   // id of the run that came of it, whole or not
	Words   string        `json:"words,omitempty"` // why, for people
	// Others is what the engine ran on the machine besides, when the job began and when it
	// ended: engine.Machine's.
	Others []string `json:"others,omitempty"`
}

// Over reports whether the job has come to an end.
func (e Event) Over() bool {
	_, over := endings[e.What]
	return over
}

// Status is how far the fleet is with one of its machines.
type Status struct {
	Event
	Records int `json:"records"` // that came so far
	// Earlier are attempts that came to an end and were followed by another.
	Earlier []Event `json:"earlier,omitempty"`
	// Kept are jobs of this slot that may still be in the engine.
	Kept []string `json:"kept,omitempty"`
}

// unfinished reports whether a job has come to an end that another attempt follows.
func (p Plan) unfinished(s Status) bool {
	return endings[s.What].again && s.Attempt < p.Attempts
}

// Collected reports whether nothing is left to do for the fleet: each job has come to its
// end and is out of the engine, and no attempt follows.
func (p Plan) Collected(all []Status) bool {
	return !slices.ContainsFunc(all, func(s Status) bool { return !s.Over() || p.unfinished(s) || len(s.Kept) > 0 })
}

// statuses replays events.
func statuses(p Plan, events []Event) []Status {
	all := make([]Status, p.Wanted)
	for i := range all {
		all[i].Event = Event{At: p.Created, Slot: i, Machine: p.Order[i], Attempt: 1}
	}
	type slotJob struct {
		slot int
		job  string
	}
	kept := map[slotJob]int{} // the events that submitted them
	for i, e := range events {
		if e.Slot < 0 || e.Slot >= len(all) {
			continue
		}
		s, job := &all[e.Slot], slotJob{e.Slot, e.Job}
		if e.What == Removed {
			delete(kept, job)
			continue
		}
		if _, ok := kept[job]; !ok && e.What == Submitting {
			kept[job] = i
		}
		if s.Over() && e.Attempt > s.Attempt {
			s.Earlier = append(s.Earlier, s.Event)
		}
		s.Event = e
	}
	for _, i := range slices.Sorted(maps.Values(kept)) {
		s := &all[events[i].Slot]
		s.Kept = append(s.Kept, events[i].Job)
	}
	return all
}

// collected is what came of a job.
type collected struct {
	view  store.StreamView
	run   string // id, "" for none
	added error  // why the stream is not a run
}

// judge decides how a job ended: by the end of its stream where it has one, since an
// engine may have lost the machine after that; else by what the engine says.
func judge(state engine.State, got collected) (What, string) {
	corrupt := got.added != nil && got.view.Begun
	switch {
	case corrupt && got.view.Ended:
		return Damaged, got.added.Error()
	case got.view.Ended:
		return byCode(got.view.Exit, state, got)
	}
	switch state.Phase {
	case engine.Lost, engine.Taken, engine.TooLong, engine.OutOfMemory, engine.Cancelled:
		return What(state.Phase), state.Words()
	}
	switch {
	case corrupt:
		return Damaged, got.added.Error()
	case !got.view.Begun && state.Exit != nil && *state.Exit != 0:
		return byCode(*state.Exit, state, got)
	case !got.view.Begun && state.Phase == "":
		return Gone, "the engine does not know the job, and it has no output"
	}
	return CutOff, because(state, got)
}

// byCode reads an exit code of tare (internal/cli/exit.go), or of what failed to start it.
func byCode(code int, state engine.State, got collected) (What, string) {
	switch code {
	case 0, 5, 6, 7: // verdicts on limits
		return Done, ""
	case 3:
		return TargetFailed, because(state, got)
	case 4:
		return CannotHere, because(state, got)
	case 130:
		if state.Phase == engine.TooLong || state.Phase == engine.Cancelled {
			return What(state.Phase), because(state, got)
		}
		return Interrupted, because(state, got)
	}
	return LabFailed, fmt.Sprintf("exit code %d: %s", code, because(state, got))
}

// because is what the engine and the job said.
func because(state engine.State, got collected) string {
	words := slices.DeleteFunc([]string{strings.Join(got.view.Other, " / "), state.Words()}, func(w string) bool { return w == "" })
	return strings.Join(words, "; ")
}

// Result is the end of a whole fleet: nil where each machine has a run.
type Result struct {
	Fault Fault
	Text  string
}

func (r *Result) Error() string { return r.Text }

// result sums the machines up. A fault of the laboratory is the worst: another attempt
// may be worth it. Machines that cannot run the study count where none can.
func result(all []Status) error {
	count := map[Fault]int{}
	for _, s := range all {
		count[endings[s.What].fault]++
	}
	text := fmt.Sprintf("%d of %d machines have a whole run", count[NoFault]+count[OfTarget], len(all))
	switch {
	case count[CannotRun] == len(all):
		return &Result{CannotRun, "no machine can run this"}
	case count[OfLaboratory] > 0:
		return &Result{OfLaboratory, text}
	case count[OfTarget] > 0:
		return &Result{OfTarget, fmt.Sprintf("a target failed on %d of %d machines", count[OfTarget], len(all))}
	}
	return nil
}

// AsResult finds the end of a fleet in an error.
func AsResult(err error) (*Result, bool) {
	var r *Result
	return r, errors.As(err, &r)
}
