package bridgenetwork

import (
	"fmt"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/claim"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/published"
)

// claims are the published sentences, judged by the publication's own cells and by
// this run's.
func (r reader) claims(n *description) ([]finding.Claim, error) {
	cells, err := published.Cells(name, publishedFile)
	if err != nil {
		return nil, err
	}
	const slope = "slope"
	c, err := claim.Read(claimsFile, cells, slope)
	if err != nil {
		return nil, err
	}
	return c.Judge(map[string]claim.Function{slope: n.slope}, r.places()...), nil
}

// slope judges the loss for each container, of which only the slope is published and
// not the measurements behind it.
func (n *description) slope() finding.Claim {
	c := finding.Claim{Verdict: finding.Open, Computed: fmt.Sprintf("the single measurements are not given; %.4f %% as published", -100*n.Loss)}
	for _, g := range n.Growth {
		if g.Metric.Name == sample.Throughput {
			c.Here = append(c.Here, growthHere(g, n.Loss))
		}
	}
	return c
}

// The quotients of published cells that a run has.
const (
	oneByHost   = "throughput_gbit_s.same_container / throughput_gbit_s.host"
	bridgeByOne = "throughput_gbit_s.cross_container / throughput_gbit_s.same_container"
)

// places are the published quotients of this run, by what makes the containers. They
// are of the first table that has any: that of the fewest containers.
func (r reader) places() []claim.Target {
	for _, t := range throughputs(r.tables) {
		var out []claim.Target
		for _, row := range t.Rows {
			base, path := onPath(row.Target)
			if row.Effect == nil || row.AA || path != loopback && path != onBridge {
				continue
			}
			quotient, e, refused := oneByHost, row.Effect, row.Effect.Verdict == analysis.NotComparable
			if path == onBridge {
				quotient, e, refused = bridgeByOne, r.against(t, row.Cell, base+study.PathSign+loopback), refused || t.Refused != ""
			}
			if e == nil {
				continue
			}
			v := claim.Value{Estimate: stats.Estimate{Value: e.Ratio, Interval: e.Interval}, Refused: refused}
			out = append(out, claim.Target{Name: row.Target + ", " + t.Group, Cells: claim.Of(map[string]claim.Value{quotient: v})})
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
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

// growthHere judges a slope: the published loss is borne out by one of about its size,
// within a factor of two, and not by one whose interval excludes it.
func growthHere(g growth, loss float64) finding.Answer {
	h := finding.Answer{Target: g.Target, Verdict: finding.Open,
		Computed: fmt.Sprintf("%+.4f %% per container (%+.4f to %+.4f), published %+.4f; %s", 100*g.Slope, 100*g.Interval.Low, 100*g.Interval.High, -100*loss, g.Why)}
	switch {
	case g.Verdict == analysis.NotComparable:
		h.Verdict = finding.Refused
	case !g.Interval.Decides():
	case -loss < g.Interval.Low || -loss > g.Interval.High:
		h.Verdict = finding.NotBorne
	case g.Verdict.Shown() && g.Interval.Low >= -2*loss && g.Interval.High <= -loss/2:
		h.Verdict = finding.BorneOut
	}
	return h
}
