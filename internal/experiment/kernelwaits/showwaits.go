package kernelwaits

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

// waitRows is how many locks a table shows; JSON has all.
const waitRows = 20

// fewWatched is how many watched cells have a sentence each among the findings.
const fewWatched = 4

// waitsSections show what watched cells waited for, and where their time went.
func waitsSections(all []watchedCell) []finding.Section {
	var out []finding.Section
	byProbe := map[string][]watchedCell{}
	locks := finding.Section{ID: "waits", Title: "What it waited for", Note: waitsLegend}
	stacks := finding.Section{ID: "stacks", Title: "Where its time went", Note: timesLegend}
	for _, w := range all {
		s, grid, said := &locks, waitsGrid, waitsFinding
		of, how := "waits by stack", "In brackets what was waited for."
		if w.States != nil {
			s, grid, said = &stacks, timesGrid, timesFinding
			of, how = "time by stack", "At the bottom what the threads did, and their names."
		}
		if w.Source != "" && w.States != nil {
			s.Note = importedLegend
		}
		byProbe[s.ID] = append(byProbe[s.ID], w)
		g := grid(w)
		if found := said(w); len(all) > fewWatched { // the tables' headings say it
			g.Title = found
		} else {
			s.Findings = append(s.Findings, found)
		}
		s.Tables = append(s.Tables, g)
		if f, ok := flame(w, of, how); ok {
			s.Figures = append(s.Figures, f)
		}
		for _, l := range waitsLost(w) {
			if l += "."; len(all) <= fewWatched {
				l = waitsTitle(w) + " " + l
			} else {
				l = "Watched cells: " + l
			}
			if !slices.Contains(s.Findings, l) {
				s.Findings = append(s.Findings, l)
			}
		}
	}
	for _, s := range []finding.Section{locks, stacks} {
		if len(s.Tables) > 0 {
			if len(all) > fewWatched {
				s.Findings = append(s.Findings, fmt.Sprintf("%d cells were watched: see %s.", len(s.Tables), strings.ToLower(s.Title)))
			}
			s.Headline, s.Data = s.Findings, byProbe[s.ID]
			out = append(out, s)
		}
	}
	return out
}

// waitsFinding says what a watched cell waited for most, and what watching cost.
func waitsFinding(w watchedCell) string {
	text := cmp.Or(mostWaits(w.Rows, w.Unit, false), "no lock")
	if engine := mostWaits(w.Rows, w.Unit, true); engine != "" {
		text += "; the engine, which may work for others too: " + engine
	}
	return waitsTitle(w) + " " + text + "; " + waitsNote(w)
}

// mostWaits names the locks that were waited for most, by the trial's own threads
// or by those of an engine that is shared; "" for none.
func mostWaits(rows []profile.Row, unit string, shared bool) string {
	var all float64
	var own []profile.Row
	for _, r := range rows {
		if r.Kind != profile.Sleep && !r.Kernel && r.Shared == shared {
			all += r.Total
			own = append(own, r)
		}
	}
	var parts []string
	for _, r := range own[:min(len(own), 3)] {
		if share := r.Total / all; share >= 0.01 {
			parts = append(parts, fmt.Sprintf("%.0f %% for %s (%s)", 100*share, r.Name, r.Places[0].Function))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	if unit != "" {
		return "of lock waits " + strings.Join(parts, ", ")
	}
	return fmt.Sprintf("of %s of lock waits %s", quantity.Of(sample.Seconds, all, stats.Interval{}), strings.Join(parts, ", "))
}

// waitsTitle heads what one watched cell waited for, and says how it was measured where
// that is not the usual way.
func waitsTitle(w watchedCell) string {
	title := strings.TrimPrefix(strings.TrimSuffix(w.Group, "~"+w.Probe)+", "+w.Target, ", ")
	if w.Way != profile.ByPrograms && w.Source == "" {
		title += " (" + string(w.Way) + ")"
	}
	return title + ":"
}

// waitsNote says what the table is of, and what watching cost.
func waitsNote(w watchedCell) string {
	if w.Source != "" {
		s := "read from " + w.Source
		if w.Elapsed > 0 {
			s += ", of " + quantity.Of(sample.Seconds, w.Elapsed, stats.Interval{})
		}
		return s + "."
	}
	s := fmt.Sprintf("%d watched %s, %s in all; %s took %s of CPU time.",
		w.Trials, quantity.Plural(w.Trials, "trial"), quantity.Of(sample.Seconds, w.Elapsed, stats.Interval{}), w.Way.Taker(), quantity.Of(sample.Seconds, w.Cost, stats.Interval{}))
	if e := w.Overhead; e != nil {
		n := quantity.Ratio(e.Ratio, e.Interval)
		s += " Watched trials took ×" + n.Value + " " + n.Interval() + " the time of the others."
	}
	if len(w.Lost) == 0 {
		s += " Nothing was lost."
	}
	return strings.Join(strings.Fields(s), " ")
}

// waitsLost says what is not in the table, or only in part.
func waitsLost(w watchedCell) []string {
	var out []string
	var unfinished uint64
	for _, r := range w.Rows {
		unfinished += r.Unfinished
	}
	if unfinished > 0 {
		out = append(out, fmt.Sprintf("unfinished: %d of the waits went on when the watching ended, and count with their time until then", unfinished))
	}
	for _, what := range slices.Sorted(maps.Keys(w.Lost)) {
		out = append(out, fmt.Sprintf("lost: %d %s", w.Lost[what], what))
	}
	return append(out, w.Notes...)
}

// waitsGrid is the table of locks, the longest wait first.
func waitsGrid(w watchedCell) finding.Table {
	shown := w.Rows[:min(len(w.Rows), waitRows)]
	var most, longest float64 // what is largest tells the unit: the small ones do not matter
	for _, r := range shown {
		most, longest = max(most, r.Total), max(longest, r.Most)
	}
	total, one := totalColumn(w, most), quantity.ScaleFor(sample.Seconds, []float64{longest})
	g := finding.Table{Title: strings.TrimSuffix(waitsTitle(w), ":"),
		Head: []string{"waited for", "where", "waits", total.head, "p99 " + one.Unit, "of elapsed", "kind"}}
	for _, r := range shown {
		p99 := "" // an estimate has neither
		switch {
		case r.P99 > 0:
			p99 = quantity.Digits(r.P99 / one.Factor)
		case r.Most > 0:
			p99 = "≤" + quantity.Digits(r.Most/one.Factor)
		}
		g.Rows = append(g.Rows, []string{lockName(r), where(r), strconv.FormatUint(r.Waits, 10),
			total.cell(r.Total), p99, perElapsed(w, r.Total), lockKind(r)})
	}
	return g
}

// totals is a column of times, or of shares where a profile is not of time.
type totals struct {
	head   string
	factor float64
	share  bool
}

// totalColumn is that of a cell's table, of which most is the largest total.
func totalColumn(w watchedCell, most float64) totals {
	if w.Unit != "" {
		return totals{"of all " + w.Unit + " %", w.Flame.Value / 100, true}
	}
	s := quantity.ScaleFor(sample.Seconds, []float64{most})
	return totals{"total " + s.Unit, s.Factor, false}
}

func (t totals) cell(total float64) string {
	if t.share {
		return percent(total / t.factor / 100)
	}
	return quantity.Digits(total / t.factor)
}

func lockName(r profile.Row) string {
	name := r.Name
	if r.Inferred {
		name += " *"
	}
	return name + others(r.Kernel, r.Shared)
}

// others marks what is not the trial's own.
func others(kernel, shared bool) string {
	switch {
	case kernel:
		return " †"
	case shared:
		return " ‡"
	}
	return ""
}

// lockKind is the kind, with the number of locks where there are several.
func lockKind(r profile.Row) string {
	if r.Locks > 1 {
		return fmt.Sprintf("%s ×%d", r.Kind, r.Locks)
	}
	return string(r.Kind)
}

// perElapsed is a total over the elapsed time: how many threads were there at a
// moment, on average.
func perElapsed(w watchedCell, total float64) string {
	if w.Elapsed == 0 || w.Unit != "" {
		return quantity.Missing
	}
	return strconv.FormatFloat(total/w.Elapsed, 'f', 2, 64)
}

// where is the function that waits most, with its share.
func where(r profile.Row) string {
	if len(r.Places) == 0 || r.Total == 0 {
		return quantity.Missing
	}
	if share := r.Places[0].Total / r.Total; share < 0.995 {
		return fmt.Sprintf("%s %.0f %%", r.Places[0].Function, 100*share)
	}
	return r.Places[0].Function
}

// waitsLegend explains the table's words.
const waitsLegend = `* inferred from the function that waits, or from another that waits at the same address. "of elapsed" is the total wait of all threads over the elapsed time: how many threads waited on average. ≤ stands before the longest wait where fewer than 100 have no p99. † kernel threads waited, for whomever. ‡ threads of the user's own engine waited, which may work for others too. ×8: as many locks of this name.`

// flame draws what a watched cell's threads waited for or did, the outermost callers
// below; false where there is nothing.
func flame(w watchedCell, of, how string) (finding.Figure, bool) {
	if len(w.Flame.Children) == 0 {
		return finding.Figure{}, false
	}
	title := fmt.Sprintf("%s, %s: %s, %s in %d %s", strings.ReplaceAll(w.Group, "~"+w.Probe, ""), w.Target, of, quantity.Of(sample.Seconds, w.Flame.Value, stats.Interval{}), w.Trials, quantity.Plural(w.Trials, "trial"))
	if w.Unit != "" {
		title = fmt.Sprintf("%s by %s", strings.TrimSuffix(waitsTitle(w), ":"), w.Unit)
	}
	return finding.Figure{Title: title, Flame: &finding.Flame{
		Of: w.Cell, Unit: w.Unit, Note: "Callers stand below; a click on a frame zooms in. " + how, Find: "find a function or lock", Frame: frame(w.Flame),
	}}, true
}

// frame is a profile's node in a figure.
func frame(n profile.Node) finding.Frame {
	f := finding.Frame{Name: n.Name, Value: n.Value}
	for _, child := range n.Children {
		f.Children = append(f.Children, frame(child))
	}
	return f
}
