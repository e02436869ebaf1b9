package concurrentstart

import (
	"fmt"
	"math"
	"strings"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/stats"
)

// nearLinear bounds the exponents that count as near linear growth.
const nearLinear = 1.25

// claimsOf recomputes what the publication concludes, and asks it of the
// targets here.
func claimsOf(s *description) []finding.Claim {
	if len(s.Published) < 2 {
		return nil
	}
	last, before := s.Published[len(s.Published)-1], s.Published[len(s.Published)-2]
	doubling := math.Log(float64(last.N) / float64(before.N))
	elapsed := math.Log(last.Elapsed/before.Elapsed) / doubling
	cpu := math.Log(last.CPU/before.CPU) / doubling
	claims := []finding.Claim{
		finding.Judged(cpu < nearLinear, "CPU time grows near linearly with the number of containers.",
			"from %d to %d containers task-clock grows as n^%.2f (near linear: an exponent below %.2f)", before.N, last.N, cpu, nearLinear),
		finding.Judged(elapsed > cpu, "Elapsed time grows faster than CPU time: the difference is waiting.",
			"from %d to %d containers elapsed time grows as n^%.2f and task-clock as n^%.2f", before.N, last.N, elapsed, cpu),
		exponentialClaim(s.Published),
	}
	for _, c := range s.Curves {
		for i, here := range [][]finding.Answer{hereCPU(c), hereFaster(c), hereExponential(c)} {
			if c.Refused != "" && len(here) > 0 {
				here[0].Verdict = finding.Refused
			}
			claims[i].Here = append(claims[i].Here, here...)
		}
	}
	return claims
}

// exponentialClaim fits the published elapsed times themselves.
func exponentialClaim(rows []publishedStart) finding.Claim {
	const text = "Elapsed time grows exponentially with the number of containers."
	var levels []stats.Level
	for _, r := range rows {
		levels = append(levels, stats.Level{N: float64(r.N), Values: []float64{r.Elapsed}})
	}
	laws, err := stats.FitLaws(levels, 0)
	if err != nil {
		return finding.Claim{Text: text, Computed: err.Error(), Verdict: finding.Open}
	}
	var fits []string
	for _, f := range laws.Fits {
		fits = append(fits, fmt.Sprintf("%s is off by %s", f.Name, quantity.Percent(f.Error)))
	}
	return finding.Judged(laws.Fits[0].Name == stats.LawExponential, text, "over its %d numbers of containers %s on average", len(rows), strings.Join(fits, ", "))
}

func hereCPU(c curve) []finding.Answer {
	e := c.CPUExponent
	if e == nil {
		return nil
	}
	return []finding.Answer{{Target: c.Name, Verdict: c.ofCPU(finding.Within(*e, math.Inf(-1), nearLinear)),
		Computed: fmt.Sprintf("%s %s grows as n^%s", c.Between(), c.cpuTime(), showEstimate(*e))}}
}

func hereFaster(c curve) []finding.Answer {
	e, cpu := c.ElapsedExponent, c.CPUExponent
	if e == nil || cpu == nil {
		return nil
	}
	verdict := finding.Open
	switch a, b := e.Interval, cpu.Interval; {
	case !a.Decides() || !b.Decides():
	case a.Low > b.High:
		verdict = finding.BorneOut
	case a.High < b.Low:
		verdict = finding.NotBorne
	}
	return []finding.Answer{{Target: c.Name, Verdict: c.ofCPU(verdict),
		Computed: fmt.Sprintf("%s elapsed time grows as n^%s and %s as n^%s", c.Between(), showEstimate(*e), c.cpuTime(), showEstimate(*cpu))}}
}

// cpuTime names a curve's CPU time with what it lacks.
func (c curve) cpuTime() string {
	if c.Unread == "" {
		return "CPU time"
	}
	return "CPU time (without " + c.Unread + ")"
}

// ofCPU is a verdict that rests on CPU time: open where not all of it was read.
func (c curve) ofCPU(v finding.Verdict) finding.Verdict {
	if c.Unread != "" {
		return finding.Open
	}
	return v
}

func hereExponential(c curve) []finding.Answer {
	if c.Elapsed == nil {
		return nil
	}
	verdict := finding.Open
	switch c.Elapsed.Best {
	case stats.LawExponential:
		verdict = finding.BorneOut
	case stats.LawLinear, stats.LawPower:
		verdict = finding.NotBorne
	default: // whichever of the other two it is, where blocks enough were drawn from
		if f := c.Elapsed.Fit(stats.LawExponential); f.B.Interval.Decides() && f.Weight < 0.05 && f.Share < 0.05 {
			verdict = finding.NotBorne
		}
	}
	return []finding.Answer{{Target: c.Name, Verdict: verdict, Computed: c.Elapsed.Why}}
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

func showEstimate(e stats.Estimate) string {
	switch e.Interval.Method {
	case stats.MethodNone:
		return fmt.Sprintf("%.2f", e.Value) + " (no interval)"
	case stats.MethodRange:
		return fmt.Sprintf("%.2f (its blocks from %.2f to %.2f, a level of %.0f %%: too few for a verdict)", e.Value, e.Interval.Low, e.Interval.High, 100*e.Interval.Level)
	}
	return fmt.Sprintf("%.2f [%.2f, %.2f]", e.Value, e.Interval.Low, e.Interval.High)
}
