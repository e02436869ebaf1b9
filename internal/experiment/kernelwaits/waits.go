package kernelwaits

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

// watchedCell is what a watched cell showed: its locks, its stacks, and what watching
// cost.
type watchedCell struct {
	Cell    string  `json:"cell"`
	Target  string  `json:"target"`
	Group   string  `json:"group"`
	Probe   string  `json:"probe"`
	Trials  int     `json:"trials"`
	Elapsed float64 `json:"elapsed"` // seconds, of all these trials together
	// Overhead is the wall time of watched trials against those of the same
	// blocks that nothing watched; nil where there are none.
	Overhead *analysis.Effect  `json:"overhead,omitempty"`
	Cost     float64           `json:"cost"`            // CPU seconds of the probe's programs, in all these trials
	Rows     []profile.Row     `json:"rows,omitempty"`  // of the lock probe
	Times    []profile.TimeRow `json:"times,omitempty"` // of the stack probe
	// States are the seconds of all threads in each state, of the stack probe.
	States map[profile.State]float64 `json:"states,omitempty"`
	Flame  profile.Node              `json:"-"` // a figure of the section has it
	// Source is what an imported profile was read from, Unit what its totals count in
	// place of nanoseconds, Samples how many it has, Functions what they are of.
	Source string `json:"source,omitempty"`
	// Way is how it was measured, "" for the usual way.
	Way       profile.Way             `json:"way,omitempty"`
	Unit      string                  `json:"unit,omitempty"`
	Samples   uint64                  `json:"samples,omitempty"`
	Functions []profile.FunctionShare `json:"functions,omitempty"`
	Lost      map[string]uint64       `json:"lost,omitempty"`
	Notes     []string                `json:"notes,omitempty"`
}

// mostOverhead is the share of the elapsed time that watching may cost.
const mostOverhead = 0.05

// lockShare is a lock, or another thing to wait for, with its share of all such
// waits.
type lockShare struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"`
}

// mostShown is how many waits tell where most of the time went.
const mostShown = 3

// largestWaits are those of the trial's own threads that took most, and the seconds
// that all of them took together; counts says which rows are meant.
func largestWaits(rows []profile.Row, counts func(profile.Row) bool) (largest []lockShare, all float64) {
	byName := map[string]float64{}
	for _, r := range rows {
		if !r.Kernel && !r.Shared && counts(r) {
			byName[r.Name] += r.Total
			all += r.Total
		}
	}
	for name, total := range byName {
		largest = append(largest, lockShare{name, total / all})
	}
	slices.SortFunc(largest, func(a, b lockShare) int { return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Name, b.Name)) })
	return largest[:min(len(largest), mostShown)], all
}

// watchedCells says what the watched cells waited for. profiles holds for each cell
// what all of its trials that gave samples showed together, trials their number.
func watchedCells(in analysis.Input, profiles map[string]profile.Profile, trials map[string]int) (all []watchedCell, warnings []string) {
	in = in.WithDefaults()
	for _, c := range in.Cells {
		if c.Probe == "" || c.AA || trials[c.ID] == 0 {
			continue
		}
		w := waitsOf(c.Probe, c.Target, profiles[c.ID])
		w.Cell, w.Group, w.Trials = c.ID, c.Group, trials[c.ID]
		if c.Unwatched != "" { // what ran anyway, or elsewhere, ran once
			w.Overhead = overhead(in, c)
			warnings = append(warnings, w.warnings()...)
		}
		all = append(all, w)
	}
	return all, saidOnce(warnings)
}

// waitsOf is what a profile shows, without what only a cell knows.
func waitsOf(probe, target string, p profile.Profile) watchedCell {
	w := watchedCell{Target: target, Probe: probe, Trials: 1, Elapsed: p.Elapsed.Seconds(), Cost: p.Cost.Seconds(),
		Rows: p.Table(), Times: p.Times(), Flame: p.Flame(), Lost: p.Lost, Notes: p.Notes, Source: p.Source, Way: p.Way, Unit: p.Unit}
	if p.Source != "" {
		w.Functions = p.Functions()
	}
	for _, s := range p.Samples {
		w.Samples += s.Count
	}
	if len(p.Samples) > 0 {
		w.States = map[profile.State]float64{}
		for _, state := range profile.States() {
			w.States[state] = p.StateTotal(state)
		}
	}
	return w
}

// overhead compares a watched cell with the one of which it is the twin.
func overhead(in analysis.Input, c study.Cell) *analysis.Effect {
	if e := analysis.Against(in.Series(c.ID, sample.Wall), in.Series(c.Unwatched, sample.Wall)); e.Blocks > 0 && e.Difference == nil {
		return e
	}
	return nil
}

// notShown is the warning of a cell whose blocks are too few or too noisy.
var notShown = fmt.Sprintf("it is not shown that watching cost less than %.0f %% of the elapsed time; more --blocks or a quieter machine would tell", 100*mostOverhead)

// saidOnce says once what warns of many cells.
func saidOnce(warnings []string) []string {
	isOne := func(w string) bool { return strings.HasSuffix(w, ": "+notShown) }
	var rest, cells []string
	for _, w := range warnings {
		if isOne(w) {
			cells = append(cells, w)
		} else {
			rest = append(rest, w)
		}
	}
	if len(cells) < 3 {
		return warnings
	}
	return append(rest, fmt.Sprintf("%d watched cells: %s", len(cells), notShown))
}

func (w watchedCell) warnings() (all []string) {
	switch e := w.Overhead; {
	case e == nil:
		all = append(all, fmt.Sprintf("%s: what watching cost is not known, because no block holds the trial both ways", w.Cell))
	case e.Interval.Decides() && e.Interval.Low > 1+mostOverhead:
		all = append(all, fmt.Sprintf("%s: watching made the trials %.1f %% longer, more than %.0f %%: shares of waits are of the slower trials; times stand in the tables of the trials that nothing watched",
			w.Cell, 100*(e.Ratio-1), 100*mostOverhead))
	case !e.Interval.Decides() || e.Interval.High > 1+mostOverhead:
		all = append(all, fmt.Sprintf("%s: %s", w.Cell, notShown))
	}
	return all
}
