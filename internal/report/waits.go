package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

// waitRows is how many locks a table on the terminal shows; the page has all.
const waitRows = 12

// waitPlaces is how many of the places that take a lock its row names.
const waitPlaces = 3

// waitsTitle heads what one watched cell waited for.
func waitsTitle(w analysis.Waits) string {
	what := map[string]string{study.ProbeLocks: "what it waited for", study.ProbeStacks: "where it was"}
	if w.Group == "" {
		return w.Target + ": " + what[w.Probe]
	}
	return w.Target + ", " + strings.TrimSuffix(w.Group, "~"+w.Probe) + ": " + what[w.Probe]
}

// waitsNote says what the table is of, and what watching cost.
func waitsNote(w analysis.Waits) string {
	s := fmt.Sprintf("%d watched %s, %s in all; the probe's programs took %s of CPU time.",
		w.Trials, plural(w.Trials, "trial"), human(sample.Seconds, w.Elapsed, analysis.Interval{}), human(sample.Seconds, w.Cost, analysis.Interval{}))
	if e := w.Overhead; e != nil {
		n := showRatio(e.Ratio, e.Interval)
		s += " Watched trials took ×" + n.Value + " " + n.interval() + " the time of the others."
	}
	return strings.Join(strings.Fields(s), " ")
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// waitsLost says what is not in the table.
func waitsLost(w analysis.Waits) []string {
	var out []string
	for _, what := range slices.Sorted(maps.Keys(w.Lost)) {
		out = append(out, fmt.Sprintf("lost: %d %s", w.Lost[what], what))
	}
	return append(out, w.Notes...)
}

// waitsGrid is the table of locks, the longest wait first.
func waitsGrid(w analysis.Waits, most int) (head []string, rows [][]string) {
	head = []string{"waited for", "kind", "locks", "waits", "total", "p99", "longest", "waiting", "where"}
	var totals, most1 []float64
	shown := w.Rows[:min(len(w.Rows), most)]
	for _, r := range shown {
		totals, most1 = append(totals, r.Total), append(most1, r.Most, r.P99)
	}
	total, one := scaleFor(sample.Seconds, totals), scaleFor(sample.Seconds, most1)
	head[4], head[5], head[6] = head[4]+" "+total.Unit, head[5]+" "+one.Unit, head[6]+" "+one.Unit
	for _, r := range shown {
		p99 := ""
		if r.P99 > 0 {
			p99 = digits(r.P99 / one.Factor)
		}
		rows = append(rows, []string{lockName(r), lockKind(r), locks(r), strconv.FormatUint(r.Waits, 10),
			digits(r.Total / total.Factor), p99, digits(r.Most / one.Factor), waiting(w, r), where(r)})
	}
	return head, rows
}

// digits prints three significant digits, enough for a sum of waits.
func digits(v float64) string { return number(v, max(0, decimals(v, math.NaN()))) }

func lockName(r profile.Row) string {
	name := r.Name
	if r.Inferred {
		name += " *"
	}
	if r.Kernel {
		name += " †"
	}
	return name
}

func lockKind(r profile.Row) string { return string(r.Kind) }

func locks(r profile.Row) string {
	if r.Kind == profile.Sleep {
		return ""
	}
	return strconv.Itoa(r.Locks)
}

// waiting is the share of the elapsed time: how many threads waited at a moment.
func waiting(w analysis.Waits, r profile.Row) string {
	if w.Elapsed == 0 {
		return missing
	}
	return strconv.FormatFloat(r.Total/w.Elapsed, 'f', 2, 64)
}

// where lists the functions that wait most, with their share.
func where(r profile.Row) string {
	var parts []string
	for _, p := range r.Places[:min(len(r.Places), waitPlaces)] {
		parts = append(parts, fmt.Sprintf("%s %.0f %%", p.Function, 100*p.Total/max(r.Total, 1e-12)))
	}
	return strings.Join(parts, ", ")
}

// waitsLegend explains the table's words.
const waitsLegend = `* inferred from the function that waits, or from another that waits at the same address. "waiting" is the total over the elapsed time: how many threads waited on average. † kernel threads waited, for whomever.`

// WriteWaits writes what something that already ran waited for.
func WriteWaits(w io.Writer, claim analysis.Waits, o Options) error {
	p := printer{w: newSink(w), Options: o}
	p.waitsOf(claim)
	return p.w.flush("the waits")
}

func (p *printer) waits(v view) {
	for _, w := range v.in.Claims.Waits {
		p.waitsOf(w)
	}
}

func (p *printer) waitsOf(w analysis.Waits) {
	p.heading(waitsTitle(w))
	p.wrapped("", "", waitsNote(w))
	for _, l := range waitsLost(w) {
		p.wrapped("! ", "  ", l)
	}
	if len(w.Rows) == 0 {
		p.w.line("It waited for no lock.")
		return
	}
	head, rows := waitsGrid(w, waitRows)
	last := len(head) - 1
	grid := newGrid()
	for i, h := range head[:last] {
		grid.column(h, i > 1, lines(rows, func(r []string) string { return clean(r[i]) }))
	}
	// The last column takes what is left of the line.
	if room := p.Width - text.LongestLineLen(grid.render()) - 2; p.Width == 0 || room >= 20 {
		grid.column(head[last], false, lines(rows, func(r []string) string { return fitTo(clean(r[last]), room, p.Width) }))
	}
	p.w.line(grid.render())
	p.wrapped("", "", waitsLegend)
}

// fitTo cuts a text to the room that is left, where the width is bounded.
func fitTo(s string, room, width int) string {
	if width == 0 {
		return s
	}
	return text.Snip(s, room, "…")
}

func markdownWaits(w sink, v view) {
	for _, claim := range v.in.Claims.Waits {
		w.printf("## %s\n\n%s\n\n", escapeMarkdown(waitsTitle(claim)), escapeMarkdown(waitsNote(claim)))
		markdownList(w, "Lost", waitsLost(claim))
		head, rows := waitsGrid(claim, len(claim.Rows))
		w.printf("%s\n\n%s\n\n", comparisonGrid(head, rows, escapeMarkdown).writer().RenderMarkdown(), escapeMarkdown(waitsLegend))
	}
}
