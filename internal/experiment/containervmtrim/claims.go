package containervmtrim

import (
	"fmt"
	"math"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/stats"
)

// claimsOf recomputes the published speedups, and asks each of every trimmed target. A
// speedup is borne out when every pair of times that the source prints gives it.
func claimsOf(c *description) []finding.Claim {
	if !c.Trims {
		return nil
	}
	var out []finding.Claim
	for _, of := range []struct{ result, span string }{{"kernel", "kernel up"}, {"initrd", "initrd"}, {"modules", "modules"}, {"total", "total"}} {
		r := c.published.Results[of.result]
		ratio := r.Before / r.After
		text, computed := fmt.Sprintf("Trimming makes %q %.2f times as fast.", of.result, r.Speedup), fmt.Sprintf("%.3f s by %.3f s: %.2f", r.Before, r.After, ratio)
		near := func(ratio float64) bool { return ratio > r.Speedup-0.01 && ratio < r.Speedup+0.01 }
		agree := near(ratio)
		if r.BeforeTable > 0 {
			again := r.BeforeTable / r.After
			agree = agree && near(again)
			computed += fmt.Sprintf("; by its own table 4-1 %.3f s by %.3f s: %.2f", r.BeforeTable, r.After, again)
		}
		claim := finding.Judged(agree, text, "%s", computed)
		if r.Doubt != "" && agree {
			claim.Verdict, claim.Computed = finding.Open, computed+"; doubtful: "+r.Doubt
		}
		if s := c.Stretch(of.span); s != nil {
			for _, target := range c.Targets {
				if e, ok := s.Speedup[target]; ok {
					claim.Here = append(claim.Here, finding.Answer{Target: target, Computed: fmt.Sprintf("%.2f times%s", e.Value, quantity.Span(e, "%.2f", 1)), Verdict: c.reaches(e, r.Speedup)})
				}
			}
		}
		out = append(out, claim)
	}
	return out
}

// reaches says whether a speedup is as large as the published one: by its whole
// interval, and not at all where the machine was too noisy or there is none.
func (c *description) reaches(e stats.Estimate, published float64) finding.Verdict {
	if c.Refused != "" {
		return finding.Refused
	}
	return finding.Within(e, published, math.Inf(1))
}
