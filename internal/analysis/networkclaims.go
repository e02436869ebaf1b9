package analysis

import (
	"fmt"
	"math"
	"strings"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// networkClaims are the published sentences, by the publication's own cells and
// by this run's.
func networkClaims(in Input, tables []Table, n *NetworkClaims) []finding.Claim {
	d := n.Published
	host, same, cross := d.Throughput.Host, d.Throughput.SameContainer, d.Throughput.CrossContainer
	claims := []finding.Claim{
		finding.Judged(math.Abs(1-same/host-0.03) < 0.01, "One container reaches about 3 % less than the host",
			"%.2f / %.2f = %.3f of the host", same, host, same/host),
		finding.Judged(math.Abs(1-cross/same-0.35) < 0.01, "Two containers on a bridge reach about 35 % less than one container",
			"%.2f / %.2f = %.3f of one container, %.3f of the host", cross, same, cross/same, cross/host),
		// Only the slope is published, not the measurements behind it.
		{Text: "Each further container on the bridge costs about 0.004 % of the maximum",
			Computed: fmt.Sprintf("about %.2g Mbit/s of %.2f Gbit/s; the single measurements are not given", n.Loss*cross*1e3, cross), Verdict: finding.Open},
	}
	for _, t := range tables {
		if !t.Primary || t.Metric.Name != sample.Throughput || len(claims[0].Here)+len(claims[1].Here) > 0 {
			continue // the publication's places are asked of the first of such tables, with the fewest containers
		}
		for _, r := range t.Rows {
			base, path, _ := strings.Cut(r.Target, study.PathSign)
			if r.Effect == nil || r.AA {
				continue
			}
			if path == "loopback" {
				claims[0].Here = append(claims[0].Here, here(r.Target+", "+t.Group, r.Effect.Ratio, r.Effect.Interval, r.Effect.Verdict, same/host, "of the host"))
			}
			if path == "bridge" {
				if one, ok := in.against(t, r.Cell, base+study.PathSign+"loopback"); ok {
					claims[1].Here = append(claims[1].Here, here(r.Target+", "+t.Group, one.ratio, one.span, r.Effect.Verdict, cross/same, "of one container"))
				}
			}
		}
	}
	for _, g := range n.Growth {
		if g.Metric.Name == sample.Throughput {
			claims[2].Here = append(claims[2].Here, growthHere(g, n.Loss))
		}
	}
	return claims
}

type against struct {
	ratio float64
	span  stats.Interval
}

// against is a cell's ratio to the cell of another target in the same table.
func (in Input) against(t Table, cell, target string) (against, bool) {
	for _, r := range t.Rows {
		if r.Target != target || r.AA {
			continue
		}
		c := compare(in.Data.cells[cell].series(t.Metric.Name), in.Data.cells[r.Cell].series(t.Metric.Name), Series{}).at(describedLevel)
		if c.effect.Ratio > 0 {
			return against{c.effect.Ratio, c.effect.Interval}, true
		}
	}
	return against{}, false
}

// nearby is how far a ratio may be from the published one to count as the same
// finding on another machine, as a share.
const nearby = 0.10

// here judges a ratio beside the published one: borne out when its whole interval
// lies near it, not when the interval lies outside.
func here(target string, ratio float64, span stats.Interval, verdict Verdict, published float64, of string) finding.Answer {
	h := finding.Answer{Target: target, Computed: fmt.Sprintf("%.3f %s (%.3f to %.3f), published %.3f", ratio, of, span.Low, span.High, published), Verdict: finding.Open}
	low, high := published*(1-nearby), published*(1+nearby)
	switch {
	case verdict == NotComparable:
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
func growthHere(g Growth, loss float64) finding.Answer {
	h := finding.Answer{Target: g.Target, Verdict: finding.Open,
		Computed: fmt.Sprintf("%+.4f %% per container (%+.4f to %+.4f), published %+.4f; %s", 100*g.Slope, 100*g.Interval.Low, 100*g.Interval.High, -100*loss, g.Why)}
	switch {
	case g.Verdict == NotComparable:
		h.Verdict = finding.Refused
	case !g.Interval.Decides():
	case -loss < g.Interval.Low || -loss > g.Interval.High:
		h.Verdict = finding.NotBorne
	case g.Verdict.Shown():
		h.Verdict = finding.BorneOut
	}
	return h
}
