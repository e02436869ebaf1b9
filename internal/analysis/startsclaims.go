package analysis

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

// nearLinear bounds the exponents that count as near linear growth.
const nearLinear = 1.25

// startsClaims recomputes what the publication concludes, and asks it of the
// targets here.
func startsClaims(s StartsClaims) []finding.Claim {
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
func exponentialClaim(rows []PublishedStarts) finding.Claim {
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
		fits = append(fits, fmt.Sprintf("%s is off by %s", f.Name, percent(f.Error)))
	}
	return finding.Judged(laws.Fits[0].Name == stats.LawExponential, text, "over its %d numbers of containers %s on average", len(rows), strings.Join(fits, ", "))
}

func hereCPU(c StartsCurve) []finding.Answer {
	e := c.CPUExponent
	if e == nil {
		return nil
	}
	return []finding.Answer{{Target: c.Name, Verdict: c.ofCPU(finding.Within(*e, math.Inf(-1), nearLinear)),
		Computed: fmt.Sprintf("%s %s grows as n^%s", c.Between(), c.cpuTime(), showEstimate(*e))}}
}

func hereFaster(c StartsCurve) []finding.Answer {
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
func (c StartsCurve) cpuTime() string {
	if c.Unread == "" {
		return "CPU time"
	}
	return "CPU time (without " + c.Unread + ")"
}

// ofCPU is a verdict that rests on CPU time: open where not all of it was read.
func (c StartsCurve) ofCPU(v finding.Verdict) finding.Verdict {
	if c.Unread != "" {
		return finding.Open
	}
	return v
}

func hereExponential(c StartsCurve) []finding.Answer {
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
func (c StartsCurve) Between() string {
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
		return fmt.Sprintf("%.2f", e.Value) + noInterval
	case stats.MethodRange:
		return fmt.Sprintf("%.2f (its blocks from %.2f to %.2f, a level of %.0f %%: too few for a verdict)", e.Value, e.Interval.Low, e.Interval.High, 100*e.Interval.Level)
	}
	return fmt.Sprintf("%.2f [%.2f, %.2f]", e.Value, e.Interval.Low, e.Interval.High)
}

// startsFindings puts the claims into sentences.
func startsFindings(s StartsClaims) []string {
	var out []string
	for _, c := range s.Curves {
		if f := curveFinding(c); f != "" {
			out = append(out, f)
		}
	}
	for _, g := range s.Scaling {
		if g.USL != nil && g.Refused == "" && g.USL.Contention.Interval.Decides() {
			out = append(out, scalingFinding(g))
		}
	}
	for _, h := range s.Held {
		if f := heldFinding(h); f != "" {
			out = append(out, f)
		}
	}
	return out
}

func curveFinding(c StartsCurve) string {
	points := slices.DeleteFunc(slices.Clone(c.Points), func(p StartsPoint) bool { return p.Blocks == 0 })
	if len(points) == 0 {
		return fmt.Sprintf("In %s no trial gave numbers.", c.Name)
	}
	last := points[len(points)-1]
	if last.Refused != "" {
		return fmt.Sprintf("In %s nothing is claimed of %s: that is refused.", c.Name, containersOf(last.N))
	}
	text := fmt.Sprintf("In %s, %s took %s, %s each second", c.Name, containersOf(last.N),
		shortSeconds(last.Values[sample.Elapsed].Value), shortNumber(last.Values[sample.StartsPerSecond].Value))
	if first := points[0]; first.N == 1 && last.N > 1 && first.Refused == "" {
		if over := c.Over(last.N, 1); over > 0 {
			text += fmt.Sprintf(": %s times one start, which is %s times %d", shortNumber(over), shortNumber(over/float64(last.N)), last.N)
		}
	}
	if last.Blocks < stats.MinimumBlocks {
		text += fmt.Sprintf(" (%s, too few for an interval)", blocksText(last.Blocks))
	}
	text += "."
	if c.Elapsed != nil && c.CPU != nil && c.Refused == "" {
		text += fmt.Sprintf(" Elapsed time grows %s, %s %s.", describeLaw(*c.Elapsed), c.cpuTime(), describeLaw(*c.CPU))
	}
	if idle, known := last.Shares[ShareIdle]; known {
		did := fmt.Sprintf("they did %s for the containers and %s for others", percent(last.Shares[ShareOwn]), percent(last.Shares[ShareOthers]))
		if busy, together := last.Shares[ShareBusy]; together {
			did = fmt.Sprintf("they did %s for the containers and others, not told apart", percent(busy))
		}
		if stolen := last.Shares[ShareStolen]; stolen >= stealWarned {
			did += fmt.Sprintf("; %s the hypervisor gave to other machines", percent(stolen))
		}
		text += fmt.Sprintf(" Of what the CPUs could do in that time %s; %s stood idle, which no CPU explains.", did, percent(idle))
	}
	return text
}

func blocksText(n int) string {
	if n == 1 {
		return "1 block"
	}
	return fmt.Sprintf("the median of %d blocks", n)
}

func containersOf(n int) string {
	if n == 1 {
		return "1 container"
	}
	return fmt.Sprintf("%d containers", n)
}

func scalingFinding(g StartsScaling) string {
	text := fmt.Sprintf("In %s, of the work of %d starts %s must wait its turn", g.Name, g.N, percent(g.USL.Contention.Value))
	if k := g.USL.Peak; k != nil {
		text += fmt.Sprintf(", and more than %.0f at once start fewer in a second", k.Value)
		if k.Interval.Decides() {
			text += fmt.Sprintf(" (95 %%: %.0f to %.0f)", k.Interval.Low, k.Interval.High)
		}
	}
	return text + "."
}

func heldFinding(h StartsCurve) string {
	points := slices.DeleteFunc(slices.Clone(h.Points), func(p StartsPoint) bool { return p.Blocks == 0 })
	if len(points) == 0 {
		return fmt.Sprintf("In %s no trial could hold its containers.", h.Name)
	}
	last := points[len(points)-1]
	if last.Refused != "" {
		return fmt.Sprintf("In %s nothing is claimed of %d containers held at once: that is refused.", h.Name, last.N)
	}
	text := fmt.Sprintf("In %s, each of %d containers held at once weighs %s by its own processes (PSS)", h.Name, last.N, mebi(last.Values[sample.PayloadPSS].Value))
	if runtime := last.Values[sample.RuntimePSS].Value; runtime > 0 {
		text += fmt.Sprintf(" and %s by its runtime's", mebi(runtime))
	}
	if client := last.Values[sample.ClientPSS].Value; client > 0 {
		text += fmt.Sprintf(" and %s by its client's", mebi(client))
	}
	if drop := last.Values[sample.AvailableDrop].Value; drop > 0 {
		return text + fmt.Sprintf("; of the machine's available memory each took %s.", mebi(drop))
	}
	return text + "; what each took of the machine's available memory was less than what others gave back meanwhile."
}

func mebi(b float64) string {
	if math.Abs(b) < 1<<20 {
		return fmt.Sprintf("%.0f KiB", b/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", b/(1<<20))
}

func shortSeconds(s float64) string {
	if s < 1 {
		return fmt.Sprintf("%.0f ms", s*1e3)
	}
	return shortNumber(s) + " s"
}

// shortNumber has three significant digits.
func shortNumber(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
