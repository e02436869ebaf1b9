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
	"github.com/tarelab/tare/internal/study"
)

// failed is a cell of which trials failed.
type failed struct {
	Cell    string          `json:"cell"`
	Label   string          `json:"label"`
	Group   string          `json:"group"`
	Failed  int             `json:"failed"`
	Of      int             `json:"of"`
	Failure *sample.Failure `json:"failure,omitempty"` // the first
	Hint    string          `json:"hint,omitempty"`    // what may have been the cause
}

// failures lists the cells of which trials failed, each once.
func failures(tables []analysis.Table, cells []study.Cell) []failed {
	var all []failed
	seen := map[string]int{} // by cell, where it is in all
	for _, t := range tables {
		for _, r := range t.Rows {
			if r.Summary.Failed == 0 {
				continue
			}
			if at, ok := seen[r.Cell]; ok { // a table may lack samples that another has
				all[at].Of = max(all[at].Of, r.Summary.Failed+r.Summary.N)
				continue
			}
			seen[r.Cell] = len(all)
			all = append(all, failed{r.Cell, r.Label, t.Group, r.Summary.Failed, r.Summary.Failed + r.Summary.N, r.Failure, killHint(r, cells)})
		}
	}
	return all
}

// sigkill is Linux's number of the signal that the kernel's memory killer sends;
// where a target passes signals on as exit codes, it is 128 more.
const sigkill = 9

// killHint says that a memory limit may have ended a row's first failed trial:
// a payload that was killed in a cell that has one. Nothing else in a record
// tells the memory killer from another's signal.
func killHint(r analysis.Row, cells []study.Cell) string {
	f := r.Failure
	if f == nil || f.Signal != sigkill && (f.ExitCode == nil || *f.ExitCode != 128+sigkill) {
		return ""
	}
	at := slices.IndexFunc(cells, func(c study.Cell) bool { return c.ID == r.Cell })
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
	s := f.Cell + ": " + strconv.Itoa(f.Failed) + " of " + strconv.Itoa(f.Of) + " trials failed"
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
	s += "): " + f.Failure.Message
	if last := lastLine(f.Failure.Stderr); last != "" && !strings.Contains(f.Failure.Message, last) {
		s += "; its last words: " + last
	}
	if steps := reached(f.Failure.Reached); steps != "" {
		s += "; it had reached " + steps
	}
	if f.Hint != "" {
		s += "; " + f.Hint
	}
	return s
}

// reached are the steps of a start that failed, the first to come first.
func reached(steps map[string]float64) string {
	names := slices.SortedFunc(maps.Keys(steps), func(a, b string) int { return cmp.Or(cmp.Compare(steps[a], steps[b]), strings.Compare(a, b)) })
	for i, name := range names {
		names[i] += " after " + quantity.Number(steps[name], 3) + " s"
	}
	return strings.Join(names, ", ")
}
