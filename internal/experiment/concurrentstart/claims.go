package concurrentstart

import (
	"fmt"
	"math"
	"strings"

	"github.com/tarelab/tare/internal/claim"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/stats"
)

// claimsOf judges what the publication concludes, and asks it of the targets here.
func claimsOf(s *description) ([]finding.Claim, error) {
	if len(s.Published) < 2 {
		return nil, nil
	}
	last, before := s.Published[len(s.Published)-1], s.Published[len(s.Published)-2]
	exponent := func(of func(publishedStart) float64) float64 {
		return math.Log(of(last)/of(before)) / math.Log(float64(last.N)/float64(before.N))
	}
	const exponential = "exponential"
	c, err := claim.Read(claimsFile, map[string]float64{
		"exponent.elapsed": exponent(func(p publishedStart) float64 { return p.Elapsed }),
		"exponent.cpu":     exponent(func(p publishedStart) float64 { return p.CPU }),
	}, exponential)
	if err != nil {
		return nil, err
	}
	var targets []claim.Target
	for _, c := range s.Curves {
		targets = append(targets, claim.Target{Name: c.Name, Cells: claim.Of(c.cells())})
	}
	return c.Judge(map[string]claim.Function{exponential: s.exponential}, targets...), nil
}

// cells are a curve's exponents. What rests on CPU time is open where not all of it was
// read.
func (c curve) cells() map[string]claim.Value {
	cells := map[string]claim.Value{}
	if e := c.ElapsedExponent; e != nil {
		cells["exponent.elapsed"] = claim.Value{Estimate: *e, Refused: c.Refused != "", Notes: []string{c.Between()}}
	}
	if e := c.CPUExponent; e != nil {
		v := claim.Value{Estimate: *e, Refused: c.Refused != "", Doubtful: c.Unread != "", Notes: []string{c.Between()}}
		if v.Doubtful {
			v.Notes = append(v.Notes, c.cpuTime())
		}
		cells["exponent.cpu"] = v
	}
	return cells
}

// exponential fits the published elapsed times themselves, and this machine's.
func (s *description) exponential() finding.Claim {
	claim := exponentialClaim(s.Published)
	for _, c := range s.Curves {
		if c.Elapsed == nil {
			continue
		}
		here := hereExponential(c)
		if c.Refused != "" {
			here.Verdict = finding.Refused
		}
		claim.Here = append(claim.Here, here)
	}
	return claim
}

// exponentialClaim fits the published elapsed times themselves.
func exponentialClaim(rows []publishedStart) finding.Claim {
	var levels []stats.Level
	for _, r := range rows {
		levels = append(levels, stats.Level{N: float64(r.N), Values: []float64{r.Elapsed}})
	}
	laws, err := stats.FitLaws(levels, 0)
	if err != nil {
		return finding.Claim{Computed: err.Error(), Verdict: finding.Open}
	}
	var fits []string
	for _, f := range laws.Fits {
		fits = append(fits, fmt.Sprintf("%s is off by %s", f.Name, quantity.Percent(f.Error)))
	}
	verdict := finding.NotBorne
	if laws.Fits[0].Name == stats.LawExponential {
		verdict = finding.BorneOut
	}
	return finding.Claim{Verdict: verdict, Computed: fmt.Sprintf("over its %d numbers of containers %s on average", len(rows), strings.Join(fits, ", "))}
}

// follows is how far a law may be off on average, as a share, for a curve to be one of it:
// the best of three laws may still be none.
const follows = 0.05

// hereExponential says whether a curve is the exponential law's.
func hereExponential(c curve) finding.Answer {
	verdict := finding.Open
	switch c.Elapsed.Best {
	case stats.LawExponential:
		if off := c.Elapsed.Fit(stats.LawExponential).Error; off > follows {
			why := fmt.Sprintf("%s; but that law is off by %s on average, so the curve may follow none of the three", c.Elapsed.Why, quantity.Percent(off))
			return finding.Answer{Target: c.Name, Verdict: finding.Open, Computed: why}
		}
		verdict = finding.BorneOut
	case stats.LawLinear, stats.LawPower:
		verdict = finding.NotBorne
	default: // whichever of the other two it is, where blocks enough were drawn from
		if f := c.Elapsed.Fit(stats.LawExponential); f.B.Interval.Decides() && f.Weight < 0.05 && f.Share < 0.05 {
			verdict = finding.NotBorne
		}
	}
	return finding.Answer{Target: c.Name, Verdict: verdict, Computed: c.Elapsed.Why}
}

// Between names the two largest numbers of instances that gave numbers.
func (c curve) Between() string {
	var n []int
	for _, p := range c.Points {
		if p.Blocks > 0 {
			n = append(n, p.N)
		}
	}
	return fmt.Sprintf("from %d to %d containers", n[len(n)-2], n[len(n)-1])
}
