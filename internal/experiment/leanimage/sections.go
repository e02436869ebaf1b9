package leanimage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/stats"
)

// section says it.
func section(d description) finding.Section {
	s := finding.Section{
		ID: name, Title: "Does a lean image make containers faster?", Data: d, Alone: true, TableFirst: true,
		Tables: []finding.Table{table("Other images against "+d.Lean, d.Images)}, Figures: figures(d),
		Note: "The programs are the same bits at all levels that are compared. Ratios are of the metric, by block, and within rounds where the workload takes turns. " +
			"A cold page cache is one without the files that the start opens; what other processes have mapped, such as this machine's C library on its own files, cannot leave it.",
	}
	if len(d.Caches) > 0 {
		s.Tables = append(s.Tables, table("A cold page cache against a warm one", d.Caches))
	}
	s.Tables = append(s.Tables, programTable(d))
	s.Findings = append(answers("the image", d.Images), answers("a cold page cache", d.Caches)...)
	for _, p := range d.Programs {
		if !p.Same {
			s.Findings = append(s.Findings, fmt.Sprintf("The program of %s is not the same in all images: nothing is claimed of it.", p.Workload))
		}
	}
	s.Headline = s.Findings[:min(len(s.Findings), 3)]
	return s
}

// answers say what one cause does, in counts and by name.
func answers(cause string, all []effect) []string {
	if len(all) == 0 {
		return nil
	}
	named := func(v ...analysis.Verdict) []string {
		var names []string
		for _, e := range all {
			if slices.Contains(v, e.Verdict) {
				names = append(names, fmt.Sprintf("%s in %s (%s against %s: %s)", e.Workload, e.Target, e.Level, e.Base, e.Words))
			}
		}
		return names
	}
	same, slower, faster := named(analysis.Same), named(analysis.Slower), named(analysis.Faster)
	out := []string{fmt.Sprintf("Of %s, by %s: %d the same within the margin, %d slower, %d faster, %d open or not comparable.",
		quantity.Count(len(all), "comparison"), cause, len(same), len(slower), len(faster), len(all)-len(same)-len(slower)-len(faster))}
	if len(slower) > 0 {
		out = append(out, "Slower by "+cause+": "+strings.Join(slower, "; ")+".")
	}
	if len(faster) > 0 {
		out = append(out, "Faster by "+cause+": "+strings.Join(faster, "; ")+".")
	}
	return out
}

func table(title string, all []effect) finding.Table {
	t := finding.Table{Title: title, Head: []string{"workload", "target", "level", "against", "metric", "ratio", "verdict", ""}, Words: true}
	for _, e := range all {
		t.Rows = append(t.Rows, []string{e.Workload, e.Target, e.Level, e.Base, e.Metric, quantity.Ratio(e.Ratio, e.Interval).String(), string(e.Verdict), e.Words})
	}
	return t
}

func programTable(d description) finding.Table {
	t := finding.Table{Title: "The programs", Head: []string{"workload", "in all images", "digest"}, Words: true}
	for _, p := range d.Programs {
		row := []string{p.Workload, "not the same", ""}
		if p.Same {
			row[1] = "the same"
			for _, digest := range p.Digests { // any of them: they are the same
				row[2] = digest[:min(len(digest), 19)]
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// figures are the ratios, one figure for the images and one for the page cache.
func figures(d description) []finding.Figure {
	var out []finding.Figure
	for _, of := range []struct {
		title string
		all   []effect
	}{{"Other images against " + d.Lean, d.Images}, {"A cold page cache against a warm one", d.Caches}} {
		f := finding.Figure{Title: of.title, X: finding.Axis{Label: "ratio of the metric"}}
		for _, e := range of.all {
			i := slices.IndexFunc(f.Dots, func(o finding.Dots) bool { return o.Name == e.Target })
			if i < 0 {
				i = len(f.Dots)
				f.Dots = append(f.Dots, finding.Dots{Name: e.Target, Look: finding.Measured})
			}
			row := e.Workload + ", " + e.Level + " (" + e.Metric + ")"
			f.Dots[i].At = append(f.Dots[i].At, finding.DotOf(row, stats.Estimate{Value: e.Ratio, Interval: e.Interval}))
		}
		if len(f.Dots) > 0 {
			out = append(out, f)
		}
	}
	return out
}
