package concurrentstart

import (
	"fmt"
	"math"
	"slices"

	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

// findingsOf puts the numbers into sentences.
func findingsOf(s *description) []string {
	var out []string
	if s.refusal != "" {
		out = append(out, s.refusal)
	}
	for _, c := range s.Curves {
		out = append(out, curveFinding(c))
	}
	for _, g := range s.Scaling {
		if g.USL != nil && g.Refused == "" && g.USL.Contention.Interval.Decides() {
			out = append(out, scalingFinding(g))
		}
	}
	for _, h := range s.Held {
		out = append(out, heldFinding(h))
	}
	return out
}

func curveFinding(c curve) string {
	points := slices.DeleteFunc(slices.Clone(c.Points), func(p point) bool { return p.Blocks == 0 })
	if len(points) == 0 {
		return fmt.Sprintf("In %s no trial gave numbers.", c.Name)
	}
	last := points[len(points)-1]
	if last.Refused != "" {
		return fmt.Sprintf("In %s nothing is claimed of %s: that is refused.", c.Name, quantity.Count(last.N, "container"))
	}
	text := fmt.Sprintf("In %s, %s took %s, %s each second", c.Name, quantity.Count(last.N, "container"),
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
	if idle, known := last.Shares[shareIdle]; known {
		text += timeFinding(last.Shares, idle)
	}
	return text
}

// stealWarned is the stolen share of the CPUs from which on a sentence names it.
const stealWarned = 0.02

// timeFinding says what the CPUs did.
func timeFinding(shares map[string]float64, idle float64) string {
	did := fmt.Sprintf("they did %s for the containers and %s for others", quantity.Percent(shares[shareOwn]), quantity.Percent(shares[shareOthers]))
	if busy, together := shares[shareBusy]; together {
		did = fmt.Sprintf("they did %s for the containers and others, not told apart", quantity.Percent(busy))
	}
	if stolen := shares[shareStolen]; stolen >= stealWarned {
		did += fmt.Sprintf("; %s the hypervisor gave to other machines", quantity.Percent(stolen))
	}
	return fmt.Sprintf(" Of what the CPUs could do in that time %s; %s stood idle, which no CPU explains.", did, quantity.Percent(idle))
}

func blocksText(n int) string {
	if n == 1 {
		return "1 block"
	}
	return fmt.Sprintf("the median of %d blocks", n)
}

// describeLaw words a fit: "as n^1.04".
func describeLaw(l stats.Laws) string {
	f := l.Fits[0]
	shape := "linearly"
	switch f.Name {
	case stats.LawPower:
		shape = fmt.Sprintf("as n^%.2f", f.B.Value)
		if i := f.B.Interval; i.Decides() {
			shape += fmt.Sprintf(" [%.2f, %.2f]", i.Low, i.High)
		}
	case stats.LawExponential:
		shape = fmt.Sprintf("exponentially, doubling every %.0f", math.Ln2/f.B.Value)
	}
	switch {
	case l.Provisional:
		shape += " (provisional: too few blocks)"
	case l.Best == "":
		shape += " (not told apart from " + l.Fits[1].Name + ")"
	}
	return shape
}

func scalingFinding(g scaling) string {
	text := fmt.Sprintf("In %s, of the work of %d starts %s must wait its turn", g.Name, g.N, quantity.Percent(g.USL.Contention.Value))
	if k := g.USL.Peak; k != nil {
		text += fmt.Sprintf(", and more than %.0f at once start fewer in a second", k.Value)
		if k.Interval.Decides() {
			text += fmt.Sprintf(" (95 %%: %.0f to %.0f)", k.Interval.Low, k.Interval.High)
		}
	}
	return text + "."
}

func heldFinding(h curve) string {
	points := slices.DeleteFunc(slices.Clone(h.Points), func(p point) bool { return p.Blocks == 0 })
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

// cpuTime names a curve's CPU time with what it lacks.
func (c curve) cpuTime() string {
	if c.Unread == "" {
		return "CPU time"
	}
	return "CPU time (without " + c.Unread + ")"
}
