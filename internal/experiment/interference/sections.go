package interference

import (
	"fmt"
	"slices"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/stats"
)

// section says it.
func section(d description) finding.Section {
	s := finding.Section{
		ID: name, Title: "Next to noisy neighbours", Data: d, TableFirst: true, Alone: true,
		Tables: []finding.Table{lossTable(d)}, Figures: figures(d),
		Note: fmt.Sprintf("Every speed is a part of the same workload's on the same target at the level %s, by block; intervals of one workload on one target hold together. "+
			"The neighbours' work is theirs at the level of the knob by that without it. %s", d.Alone, scheduler(d)),
	}
	if len(d.Relief) > 0 {
		s.Tables = append(s.Tables, reliefTable(d))
	}
	for _, level := range d.noises() {
		s.Findings = append(s.Findings, sentence(d, level))
	}
	s.Headline = s.Findings[:min(len(s.Findings), 3)]
	return s
}

func scheduler(d description) string {
	if d.Scheduler == "" {
		return "The kernel's own scheduler ran (no sched_ext): run the study under another one and compare with tare report."
	}
	return "The BPF scheduler " + d.Scheduler + " (sched_ext) ran all processes."
}

// sentence is what one kind of neighbours does, and what helps.
func sentence(d description, level string) string {
	worst, ok := d.worst(level)
	if !ok {
		all, open, refused := d.undecided(level)
		what := "shown"
		if open+refused == all {
			what = "decided"
		}
		text := fmt.Sprintf("Next to the neighbours of %s no loss is %s", level, what)
		if open+refused == 0 {
			return text + "."
		}
		return text + fmt.Sprintf(": %d open and %d refused of %s.", open, refused, quantity.Count(all, "comparison"))
	}
	text := fmt.Sprintf("Next to the neighbours of %s, %s in %s keeps %s of its speed.", level, worst.Workload, worst.Target, percent(worst.Kept, worst.Interval))
	best, ok := d.best(worst)
	if !ok {
		if slices.ContainsFunc(d.Relief, func(r loss) bool { return r.Noise == level && r.Workload == worst.Workload }) {
			return text + " No knob is shown to give it back."
		}
		return text
	}
	text += fmt.Sprintf(" %s gives most back: %s", best.Level, percent(best.Kept, best.Interval))
	if best.Neighbours > 0 {
		text += fmt.Sprintf("; the neighbours then do %s of their work", percent(best.Neighbours, best.NeighboursRange))
	}
	return text + "."
}

// kept is the part of its speed that a workload has, no number where it is refused.
func kept(l loss) string {
	if l.refused() {
		return quantity.Missing
	}
	return percent(l.Kept, l.Interval)
}

// percent is a part with its interval, in percent.
func percent(part float64, i stats.Interval) string {
	scaled := stats.Scaled(i, 100)
	shown := quantity.Scale{Factor: 1}.Show(100*part, scaled)
	return quantity.WithUnit(shown.Value, "%") + interval(shown)
}

func interval(s quantity.Shown) string {
	if s.Interval() == "" {
		return ""
	}
	return " " + s.Interval()
}

func lossTable(d description) finding.Table {
	t := finding.Table{Title: "Speed next to neighbours, % of that alone", Head: []string{"neighbours", "what they run", "workload"}, Words: true}
	targets := targetsOf(d.Losses)
	t.Head = append(t.Head, targets...)
	for _, l := range d.Losses {
		row := slices.IndexFunc(t.Rows, func(r []string) bool { return r[0] == l.Level && r[2] == l.Workload })
		if row < 0 {
			row = len(t.Rows)
			t.Rows = append(t.Rows, append([]string{l.Level, l.Kind, l.Workload}, make([]string, len(targets))...))
		}
		t.Rows[row][3+slices.Index(targets, l.Target)] = kept(l) + " " + string(l.Verdict)
	}
	return t
}

func reliefTable(d description) finding.Table {
	t := finding.Table{Title: "What gives it back", Head: []string{"level", "workload", "target", "% of alone", "by that without the knob", "verdict", "neighbours' work"}, Words: true}
	for _, r := range d.Relief {
		work, given := "", quantity.Missing
		if r.Neighbours > 0 {
			work = percent(r.Neighbours, r.NeighboursRange)
		}
		if r.GivenVerdict != analysis.NotComparable {
			given = quantity.Ratio(r.Given, r.GivenInterval).String()
		}
		t.Rows = append(t.Rows, []string{r.Level, r.Workload, r.Target, kept(r), given, string(r.GivenVerdict), work})
	}
	return t
}

func targetsOf(all []loss) []string {
	var names []string
	for _, l := range all {
		if !slices.Contains(names, l.Target) {
			names = append(names, l.Target)
		}
	}
	return names
}

// figures are the speeds by level, one figure a workload.
func figures(d description) []finding.Figure {
	var out []finding.Figure
	all := slices.Concat(d.Losses, d.Relief)
	for _, l := range all {
		title := "Speed of " + l.Workload + " next to neighbours"
		if slices.ContainsFunc(out, func(f finding.Figure) bool { return f.Title == title }) {
			continue
		}
		f := finding.Figure{Title: title, X: finding.Axis{Label: "% of the speed alone", Zero: true}}
		for _, target := range targetsOf(all) {
			dots := finding.Dots{Name: target, Look: finding.Measured}
			for _, o := range all {
				if o.Target == target && o.Workload == l.Workload && !o.refused() {
					dots.At = append(dots.At, dot(o))
				}
			}
			if len(dots.At) > 0 {
				f.Dots = append(f.Dots, dots)
			}
		}
		if len(f.Dots) > 0 {
			out = append(out, f)
		}
	}
	return out
}

func dot(l loss) finding.Dot {
	return finding.DotOf(l.Level, stats.Estimate{Value: 100 * l.Kept, Interval: stats.Scaled(l.Interval, 100)})
}
