package unixbench

import (
	"slices"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/stats"
)

// figures are the published figures, drawn from their data next to the same figures of
// this machine: a row for each environment, and the machines in one container.
func figures(u *description) []finding.Figure {
	var out []finding.Figure
	for _, t := range publishedTables() {
		theirs := curvesIn(u.Published, "", t.environment)
		n, y := extent(append(slices.Clone(theirs), curvesIn(u.Curves, "", t.environment)...))
		var here []finding.Figure
		for _, target := range u.drawn() {
			if curves := curvesIn(u.Curves, target, t.environment); len(curves) > 0 {
				title := "this machine, " + target
				if as := curves[0].MeasuredAs; as != "" {
					title += ", measured as " + as
				}
				here = append(here, fallFigure(title, t.environment, curves, n, y))
			}
		}
		if len(theirs) == 0 || len(here) == 0 {
			continue
		}
		out = append(out, fallFigure("published, "+theirs[0].Target, t.environment, theirs, n, y))
		for _, f := range here {
			f.Beside = true
			out = append(out, f)
		}
	}
	return append(out, machineFigures(u)...)
}

// drawn are the targets with a figure: containers, where there are any.
func (u *description) drawn() []string {
	if targets := u.containerTargets(); len(targets) > 0 {
		return targets
	}
	var out []string
	for _, c := range u.Curves {
		if !slices.Contains(out, c.Target) {
			out = append(out, c.Target)
		}
	}
	return out
}

// curvesIn are the curves of a target, "" for any, in an environment.
func curvesIn(all []curve, target, environment string) []curve {
	return slices.DeleteFunc(slices.Clone(all), func(c curve) bool {
		return c.Environment != environment || target != "" && c.Target != target
	})
}

// mostDrawn is where the axis of relative scores ends at the latest.
const mostDrawn = 2

// extent is the most containers of curves, and their largest score relative to one.
func extent(curves []curve) (n, y float64) {
	n, y = 1, 1.1
	for _, c := range curves {
		for _, p := range c.Points {
			if at, ok := relative(p); ok {
				n, y = max(n, at.X), max(y, at.Y)
			}
		}
	}
	return n, min(y, mostDrawn)
}

// fallFigure draws the scores relative to one container, for up to n containers and
// up to y. The index and whetstone by CPU time stand out; the other tests are pale.
func fallFigure(title, environment string, curves []curve, n, y float64) finding.Figure {
	f := finding.Figure{Title: capital(placeName(environment)) + ": " + title,
		X: finding.Axis{Label: "containers at once (0 is the host)", Zero: true, To: n}, Y: finding.Axis{Label: "score relative to one container", Zero: true, To: y}}
	var bold []finding.Line
	for _, c := range curves {
		if c.Test == indexAsPublished || c.Test == indexName && c.Clock == wallClock {
			continue
		}
		l := finding.Line{Name: c.Name(), Look: finding.Pale}
		for _, p := range c.Points {
			if at, ok := relative(p); ok {
				l.Points = append(l.Points, at)
			}
		}
		if c.Test == indexName || c.Test == "whetstone" && c.Clock == cpuClock {
			l.Look = finding.Measured
			bold = append(bold, l)
		} else {
			f.Lines = append(f.Lines, l)
		}
	}
	slices.Reverse(bold) // the index first: its colour is the same in each figure
	f.Lines = append(f.Lines, bold...)
	law := finding.Line{Name: "1/n", Look: finding.Fit}
	for at := 1.; at <= n; at += 0.25 {
		law.Points = append(law.Points, finding.Exactly(at, 1/at))
	}
	f.Lines = append(f.Lines, law)
	return f
}

// relative is a point by that of one container.
func relative(p point) (finding.Point, bool) {
	e := stats.Exact(1)
	switch {
	case p.N == 1 && p.Data.Value > 0:
	case p.ToOne != nil:
		e = *p.ToOne
	default:
		return finding.Point{}, false
	}
	at := finding.Estimated(float64(p.N), e)
	at.Tip = "score " + scoreText(p.Data.Value)
	return at, true
}

func scoreText(v float64) string { return quantity.Number(v, max(0, 3-quantity.Decade(v))) }

// machineFigures set the machines next to each other, test by test, with one copy and
// with one for each CPU.
func machineFigures(u *description) []finding.Figure {
	var out []finding.Figure
	for _, environment := range []string{envAllN, envAllOne} {
		f := finding.Figure{Title: "Machines in one container: " + placeName(environment), Beside: len(out) > 0,
			X: finding.Axis{Label: "score", Log: true}}
		for _, p := range u.Platforms {
			if p.Environment == environment {
				f.Dots = append(f.Dots, dotsOf(p, append([]string{indexName}, u.Tests...)))
			}
		}
		if len(f.Dots) > 0 {
			out = append(out, f)
		}
	}
	return out
}

func dotsOf(p platform, tests []string) finding.Dots {
	d := finding.Dots{Name: p.Name, Look: finding.Published}
	if p.Here {
		d.Look = finding.Measured
	}
	for _, test := range tests {
		if e, ok := p.Scores[test]; ok {
			d.At = append(d.At, finding.DotOf(test, e))
		}
	}
	return d
}
