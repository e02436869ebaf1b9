package bridgenetwork

import (
	"fmt"
	"math"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

// claims are the published sentences, judged by the publication's own cells and by
// this run's.
func (r reader) claims(n *description) []finding.Claim {
	p := n.Published.Throughput
	one, two := p.SameContainer/p.Host, p.CrossContainer/p.SameContainer
	ofOne, ofTwo := r.placesHere(one, two)
	var slopes []finding.Answer
	for _, g := range n.Growth {
		if g.Metric.Name == sample.Throughput {
			slopes = append(slopes, growthHere(g, n.Loss))
		}
	}
	return []finding.Claim{
		finding.Judged(math.Abs(1-one-0.03) < 0.01, "One container reaches about 3 % less than the host",
			"%.2f / %.2f = %.3f of the host", p.SameContainer, p.Host, one).AskedHere(ofOne),
		finding.Judged(math.Abs(1-two-0.35) < 0.01, "Two containers on a bridge reach about 35 % less than one container",
			"%.2f / %.2f = %.3f of one container, %.3f of the host", p.CrossContainer, p.SameContainer, two, p.CrossContainer/p.Host).AskedHere(ofTwo),
		// Only the slope is published, not the measurements behind it.
		{Text: "Each further container on the bridge costs about 0.004 % of the maximum",
			Computed: fmt.Sprintf("about %.2g Mbit/s of %.2f Gbit/s; the single measurements are not given", n.Loss*p.CrossContainer*1e3, p.CrossContainer),
			Verdict:  finding.Open, Here: slopes},
	}
}

// placesHere asks of this machine what one container reaches of the host, and two
// containers on a bridge of one. It asks the first table that answers: that has the
// fewest containers.
func (r reader) placesHere(one, two float64) (ofOne, ofTwo []finding.Answer) {
	for _, t := range throughputs(r.tables) {
		for _, row := range t.Rows {
			base, path := onPath(row.Target)
			if row.Effect == nil || row.AA {
				continue
			}
			name := row.Target + ", " + t.Group
			if path == loopback {
				ofOne = append(ofOne, here(name, *row.Effect, row.Effect.Verdict, one, "of the host"))
			}
			if e := r.against(t, row.Cell, base+study.PathSign+loopback); path == onBridge && e != nil {
				ofTwo = append(ofTwo, here(name, *e, row.Effect.Verdict, two, "of one container"))
			}
		}
		if len(ofOne)+len(ofTwo) > 0 {
			break
		}
	}
	return ofOne, ofTwo
}

// against is a cell's effect against another target's cell in the same table, nil
// where the two have no ratio.
func (r reader) against(t analysis.Table, cell, target string) *analysis.Effect {
	for _, row := range t.Rows {
		if row.Target != target || row.AA {
			continue
		}
		if e := analysis.Against(r.Series(cell, t.Metric.Name), r.Series(row.Cell, t.Metric.Name)); e.Ratio > 0 {
			return e
		}
	}
	return nil
}

// nearby is how far a ratio may be from the published one to count as the same
// finding on another machine, as a share.
const nearby = 0.10

// here judges a ratio beside the published one: borne out when its whole interval
// lies near it, not when the interval lies outside.
func here(target string, e analysis.Effect, verdict analysis.Verdict, published float64, of string) finding.Answer {
	ratio, span := e.Ratio, e.Interval
	h := finding.Answer{Target: target, Computed: fmt.Sprintf("%.3f %s (%.3f to %.3f), published %.3f", ratio, of, span.Low, span.High, published), Verdict: finding.Open}
	low, high := published*(1-nearby), published*(1+nearby)
	switch {
	case verdict == analysis.NotComparable:
		h.Verdict = finding.Refused
	case !span.Decides():
		h.Computed = fmt.Sprintf("%.3f %s, too few blocks for an interval; published %.3f", ratio, of, published)
	case span.Low >= low && span.High <= high:
		h.Verdict = finding.BorneOut
	case span.High < low || span.Low > high:
		h.Verdict = finding.NotBorne
	}
	return h
}

// growthHere judges a slope: the published loss must lie in its interval, which
// must exclude zero.
func growthHere(g growth, loss float64) finding.Answer {
	h := finding.Answer{Target: g.Target, Verdict: finding.Open,
		Computed: fmt.Sprintf("%+.4f %% per container (%+.4f to %+.4f), published %+.4f; %s", 100*g.Slope, 100*g.Interval.Low, 100*g.Interval.High, -100*loss, g.Why)}
	switch {
	case g.Verdict == analysis.NotComparable:
		h.Verdict = finding.Refused
	case !g.Interval.Decides():
	case -loss < g.Interval.Low || -loss > g.Interval.High:
		h.Verdict = finding.NotBorne
	case g.Verdict.Shown():
		h.Verdict = finding.BorneOut
	}
	return h
}
