package report

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/go-units"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// failed is a cell of which trials failed, as it is shown. Run is the label of its run
// where several are compared, else "".
type failed struct {
	analysis.FailedCell
	Hint string `json:"hint,omitempty"` // what may have been the cause
}

// failures are the cells of which trials failed.
func (in Input) failures() []failed {
	runs, labels := in.runs(), in.labels()
	return lines(in.Claims.Failed, func(f analysis.FailedCell) failed {
		of := max(0, slices.IndexFunc(runs, func(m store.Manifest) bool { return m.ID == f.Run }))
		if f.Run = ""; len(runs) > 1 {
			f.Run = labels[of]
		}
		return failed{f, killHint(f, runs[of].Cells)}
	})
}

// name is the cell, and of several runs the one in which its trials failed.
func (f failed) name() string {
	if f.Run == "" {
		return f.Cell
	}
	return f.Run + ": " + f.Cell
}

// all reports whether no trial gave a sample.
func (f failed) all() bool { return f.Failed == f.Of }

// sigkill is Linux's number of the signal that the kernel's memory killer sends;
// where a target passes signals on as exit codes, it is 128 more.
const sigkill = 9

// killHint says that a memory limit may have ended a cell's first failed trial:
// a payload that was killed in a cell that has one. Nothing else in a record
// tells the memory killer from another's signal.
func killHint(of analysis.FailedCell, cells []study.Cell) string {
	f := of.Failure
	if f == nil || f.Signal != sigkill && (f.ExitCode == nil || *f.ExitCode != 128+sigkill) {
		return ""
	}
	at := slices.IndexFunc(cells, func(c study.Cell) bool { return c.ID == of.Cell })
	if at < 0 || cells[at].Limits.Memory <= 0 {
		return ""
	}
	return "the memory limit of " + units.BytesSize(float64(cells[at].Limits.Memory)) + " may have killed it"
}

// lastLine is the last line of a text that says something, cut where it is long.
func lastLine(s string) string {
	const most = 200 // characters: two lines of a wide terminal
	s = strings.TrimSpace(s)
	line := []rune(strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:]))
	if len(line) > most {
		return string(line[:most]) + "…"
	}
	return string(line)
}

// failureLine says what failed, whose fault it is, why, what the payload said
// last, and what may have been the cause.
func failureLine(f failed) string {
	s := f.name() + ": " + strconv.Itoa(f.Failed) + " of " + strconv.Itoa(f.Of) + " trials failed"
	if f.Failure == nil {
		return s
	}
	s += ", first in " + f.Failure.Phase + " (the " + string(f.Failure.Fault) + "'s fault"
	if f.Failure.ExitCode != nil {
		s += ", exit code " + strconv.Itoa(*f.Failure.ExitCode)
	}
	if f.Failure.Signal != 0 {
		s += ", signal " + strconv.Itoa(f.Failure.Signal)
	}
	s += "): " + reason(f.Failure)
	if steps := reached(f.Failure.Reached); steps != "" {
		s += "; it had reached " + steps
	}
	if f.Hint != "" {
		s += "; " + f.Hint
	}
	return s
}

// reason is why a trial failed, and what its payload said last.
func reason(f *sample.Failure) string {
	if last := lastLine(f.Stderr); last != "" && !strings.Contains(f.Message, last) {
		return f.Message + "; its last words: " + last
	}
	return f.Message
}

// reached are the steps of a start that failed, the first to come first.
func reached(steps map[string]float64) string {
	names := slices.SortedFunc(maps.Keys(steps), func(a, b string) int { return cmp.Or(cmp.Compare(steps[a], steps[b]), strings.Compare(a, b)) })
	for i, name := range names {
		names[i] += " after " + quantity.Number(steps[name], 3) + " s"
	}
	return strings.Join(names, ", ")
}
