package concurrentstart

import (
	"fmt"
	"math"
	"slices"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

// growthFigures draw elapsed time over the number of containers, relative to
// fifty and to one, and the published curve.
func growthFigures(s *description) []finding.Figure {
	var out []finding.Figure
	for _, base := range []int{50, 1} {
		f := finding.Figure{Title: fmt.Sprintf("Elapsed time, by that of %d", base), Beside: len(out) > 0,
			X: finding.Axis{Label: "containers", Log: true}, Y: finding.Axis{Label: fmt.Sprintf("times the elapsed time of %d", base), Log: true}}
		for _, c := range s.Curves {
			l := finding.Line{Name: c.Name, Look: finding.Measured}
			for _, p := range c.Points {
				over := c.Over(p.N, base)
				if over <= 0 || p.N < base {
					continue
				}
				e := p.Values[sample.Elapsed]
				at := finding.Estimated(float64(p.N), stats.Estimate{Value: over, Interval: stats.Scaled(e.Interval, over/e.Value)})
				at.Tip = estimate(e, sample.Seconds)
				l.Points = append(l.Points, at)
			}
			if len(l.Points) > 1 {
				f.Lines = append(f.Lines, l)
			}
		}
		published := finding.Line{Name: "published docker run", Look: finding.Published}
		for _, p := range s.Published {
			y := p.ElapsedBy1
			if base == 50 {
				y = p.ElapsedBy50
			}
			if y > 0 {
				at := finding.Exactly(float64(p.N), y)
				at.Tip = quantity.Rounded(p.Elapsed, sample.Seconds)
				published.Points = append(published.Points, at)
			}
		}
		if len(f.Lines) > 0 {
			f.Lines = append(f.Lines, published)
			out = append(out, f)
		}
	}
	return out
}

// timeFigure draws what all CPUs did while the most containers were started.
func timeFigure(s *description) []finding.Figure {
	f := finding.Figure{Title: "What the CPUs did while the most containers were started", Y: finding.Axis{Label: "share of what all CPUs could do, %", Zero: true}}
	for _, c := range s.Curves {
		for i := len(c.Points) - 1; i >= 0; i-- {
			p := c.Points[i]
			if p.Shares == nil {
				continue
			}
			b := finding.Bar{Name: fmt.Sprintf("%s, %d", c.Name, p.N), Look: finding.Measured}
			for _, piece := range shared(timeParts, s.Curves) {
				b.Parts = append(b.Parts, finding.Part{Name: piece.name, Value: 100 * p.Shares[piece.share]})
			}
			f.Bars = append(f.Bars, b)
			break
		}
	}
	if len(f.Bars) == 0 {
		return nil
	}
	return []finding.Figure{f}
}

// logSpan is the ratio of the fastest to the slowest from which on only a logarithmic
// axis shows both.
const logSpan = 20

// scalingFigures draw starts a second over the concurrency, with the law.
func scalingFigures(s *description) []finding.Figure {
	f := finding.Figure{Title: "Starts a second over the concurrency", X: finding.Axis{Label: "at once", Log: true}, Y: finding.Axis{Label: "starts a second", Zero: true}}
	slowest, fastest := math.Inf(1), 0.0
	sizes := slices.ContainsFunc(s.Scaling, func(c scaling) bool { return c.N != s.Scaling[0].N })
	for _, c := range s.Scaling {
		name := c.Name
		if sizes {
			name += fmt.Sprintf(", %d containers", c.N)
		}
		l := finding.Line{Name: name, Look: finding.Measured}
		fit := finding.Line{Name: name + ", law", Look: finding.Fit}
		for _, p := range c.Points {
			e, measured := p.Values[sample.StartsPerSecond]
			if !measured {
				continue
			}
			slowest, fastest = min(slowest, e.Value), max(fastest, e.Value)
			n := float64(p.Concurrency)
			l.Points = append(l.Points, finding.Estimated(n, e))
			if c.USL != nil {
				fit.Points = append(fit.Points, finding.Exactly(n, c.USL.At(n)))
			}
		}
		if len(l.Points) > 1 {
			f.Lines = append(f.Lines, l)
			if len(fit.Points) > 1 {
				f.Lines = append(f.Lines, fit)
			}
		}
	}
	if len(f.Lines) == 0 {
		return nil
	}
	if slowest > 0 && fastest > logSpan*slowest { // an engine beside bare namespaces would be a line at the bottom
		f.Y = finding.Axis{Label: f.Y.Label, Log: true}
	}
	return []finding.Figure{f}
}
