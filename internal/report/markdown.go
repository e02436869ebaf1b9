package report

import (
	"io"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
)

// Markdown writes the report as GitHub-flavoured Markdown.
func Markdown(w io.Writer, in Input) error {
	s := newSink(w, false)
	markdown(s, newView(in))
	return s.flush("Markdown")
}

func markdown(w sink, v view) {
	s := v.in.Manifest.Study
	w.printf("# %s\n\n%s\n\n", escapeMarkdown(s.Title), escapeMarkdown(s.Question))
	markdownSummary(w, v.brief)
	markdownList(w, "Warnings", analysis.Texts(v.in.Claims.Warnings))
	markdownList(w, "Findings", v.findings)
	for _, c := range v.in.Claims.Comparisons {
		title, head, rows := v.in.comparison(c)
		w.printf("## %s\n\n%s\n\n", escapeMarkdown(title), comparisonGrid(head, rows).markdown())
	}
	for _, s := range v.in.Sections {
		markdownSection(w, s)
	}
	if v.alone() == nil {
		markdownPrices(w, v)
	}
	markdownList(w, "Failed trials", lines(v.failures, failureLine))
	markdownList(w, "Left out", lines(v.leftOut, func(f fact) string { return f.Name + ": " + f.Value }))
	markdownList(w, "The run", lines(v.facts, func(f fact) string { return f.Name + ": " + f.Value }))
}

func markdownPrices(w sink, v view) {
	if v.isLadder() {
		markdownLadders(w, v)
	}
	for _, g := range v.groups {
		markdownGroup(w, g)
	}
	if !v.isLadder() {
		markdownLadders(w, v)
	}
}

func markdownList(w sink, heading string, items []string) {
	if len(items) == 0 {
		return
	}
	w.printf("## %s\n\n", heading)
	for _, i := range items {
		w.printf("- %s\n", escapeMarkdown(i))
	}
	w.line("")
}

func markdownGroup(w sink, g group) {
	w.printf("## %s\n\n", escapeMarkdown(g.name))
	for _, t := range g.primary {
		w.printf("### %s\n\n", escapeMarkdown(t.Title))
		if t.claim.Metric.Help != "" {
			w.printf("%s\n\n", escapeMarkdown(t.claim.Metric.Help))
		}
		grid := newGrid()
		for _, c := range priceColumns(t) {
			grid.column(c.head, c.right, lines(t.Rows, c.cell))
		}
		w.printf("%s\n\n", grid.markdown())
		if s := resolution(t); s != "" {
			w.printf("%s\n\n", s)
		}
		for _, r := range refusedRows(t) {
			w.printf("Not comparable: %s: %s\n\n", escapeMarkdown(r.what), escapeMarkdown(r.why))
		}
	}
	if len(g.secondary) == 0 {
		return
	}
	head, rows := brief(g)
	grid := newGrid()
	for i, h := range head {
		grid.column(h, i > 0, lines(rows, func(r []string) string { return r[i] }))
	}
	w.printf("%s\n\n%s\n\n", grid.markdown(), escapeMarkdown(legend))
}

func markdownLadders(w sink, v view) {
	for _, l := range v.ladders {
		w.printf("## Ladder %s: %s\n\n", escapeMarkdown(l.claim.Group), escapeMarkdown(l.claim.Metric.Name))
		steps, deltas, intervals, levels := []string{l.claim.Base}, []string{""}, []string{""}, []string{l.Base.Value}
		for i, s := range l.claim.Steps {
			steps = append(steps, strings.TrimPrefix(strings.TrimSpace(stepName(s)), "+ "))
			deltas = append(deltas, l.Steps[i].Delta.Value)
			intervals = append(intervals, l.Steps[i].Delta.Interval())
			levels = append(levels, l.Steps[i].Level)
		}
		grid := newGrid()
		grid.column("step", false, steps)
		grid.column("delta "+l.Delta.Unit, true, deltas)
		grid.column("95 % interval", true, intervals)
		grid.column("total "+l.Total.Unit, true, levels)
		w.printf("%s\n\n%s\n\n", grid.markdown(), escapeMarkdown(l.Sum))
	}
}

// escapeMarkdown keeps a text from being read as markup; tables escape "|"
// themselves.
func escapeMarkdown(s string) string {
	return markdownEscaper.Replace(clean(s))
}

var markdownEscaper = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "<", "&lt;", ">", "&gt;", "[", `\[`, "]", `\]`, "&", "&amp;",
)
