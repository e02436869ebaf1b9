package unixbench

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/tarelab/tare/internal/claim"
	"github.com/tarelab/tare/internal/stats"
)

// hasListed says whether all tests that the published tables list ran here.
func (u *description) hasListed() bool { return len(u.Tests) == u.Listed }

// containerTargets are the targets that have a host's point, in order.
func (u *description) containerTargets() []string {
	var out []string
	for _, c := range u.Curves {
		if c.At(0) != nil && !slices.Contains(out, c.Target) {
			out = append(out, c.Target)
		}
	}
	return out
}

// comparable is a test's curve by the clock that published rows were taken by.
func (u *description) comparable(target, environment, test string) *curve {
	if c := u.Curve(target, environment, test, cpuClock); c != nil {
		return c
	}
	return u.Curve(target, environment, test, wallClock)
}

// cells are what a target gives of the published cells: quotients of numbers of
// containers, and how its tests fall on one CPU.
func (u *description) cells(target string, tests []string) map[string]claim.Value {
	cells := map[string]claim.Value{}
	for short, environment := range map[string]string{"onecpu": envOneCPU, "ncopies": envAllN, "onecopy": envAllOne} {
		for _, test := range tests {
			own := test
			if test == indexName {
				own = indexAsPublished
			}
			if c := u.comparable(target, environment, own); c != nil {
				u.addQuotients(cells, short+"."+test+".", c)
			}
		}
	}
	for _, test := range u.Tests {
		c := u.comparable(target, envOneCPU, test)
		if c == nil || c.Law == nil || c.Clock == cpuClock {
			continue
		}
		b, over := c.Law.Decay, c.Counts()
		if both := c.Law.Beside; both != nil {
			b, over = both.Decay, both.Counts
		}
		cells["decay."+test] = u.value(c, b, "b over "+rangeOf(over))
	}
	return cells
}

// addQuotients adds those of a curve's points to one container, of one to the host, and
// of eight to four.
func (u *description) addQuotients(cells map[string]claim.Value, prefix string, c *curve) {
	var notes []string
	if w := u.Curve(c.Target, c.Environment, c.Test, wallClock); c.Clock == cpuClock && c.Test == "whetstone" && w != nil && w.Law != nil {
		notes = []string{"by CPU time; by wall time it falls with b = " + shownPlain(w.Law.Decay)}
	}
	if c.Test == indexAsPublished {
		notes = []string{fmt.Sprintf("the index over all %d tests", len(allTests()))}
	}
	add := func(of, by int, e *stats.Estimate, notes ...string) {
		if e != nil {
			cells[fmt.Sprintf("%s%d / %s%d", prefix, of, prefix, by)] = u.value(c, *e, notes...)
		}
	}
	for _, p := range c.Points {
		if p.N > 1 {
			add(p.N, 1, p.ToOne, notes...)
		}
	}
	if one := c.At(1); one != nil {
		add(1, 0, one.ToHost, notes...)
	}
	if eight, four := c.At(8), c.At(4); eight != nil && four != nil {
		add(8, 4, eight.over(four))
	}
}

// value is a curve's number as a cell. Of many cases one lies outside of its limits the
// more likely by chance: then its interval is widened to hold at 95 % for all of them
// together (Bonferroni).
func (u *description) value(c *curve, e stats.Estimate, notes ...string) claim.Value {
	least := u.Repetitions // of any point: the estimate may rest on that one
	for _, p := range c.Points {
		if n := len(p.Repetitions); n > 0 {
			least = min(least, n)
		}
	}
	return claim.Value{Estimate: e, Notes: notes, Refused: u.refusedIn(c.Target, c.Test, c.Environment),
		Together: func(cases int) stats.Interval { return widened(e, cases, least) }}
}

// widened is an estimate's interval of Student's t at 1 - 0.05/cases in place of
// 0.95. That of a ratio is widened as a logarithm, which it was made of.
func widened(e stats.Estimate, cases, repetitions int) stats.Interval {
	i := e.Interval
	t := distuv.StudentsT{Sigma: 1, Nu: float64(max(1, repetitions-1))}
	factor := t.Quantile(1-0.025/float64(cases)) / t.Quantile(0.975)
	if i.Method == stats.MethodStudentLog {
		i.Low, i.High = e.Value*math.Pow(i.Low/e.Value, factor), e.Value*math.Pow(i.High/e.Value, factor)
		return i
	}
	i.Low, i.High = e.Value+factor*(i.Low-e.Value), e.Value+factor*(i.High-e.Value)
	return i
}

// oneToHost is a test in one container against the host, nil where one is missing.
func (u *description) oneToHost(target, environment, test string) *stats.Estimate {
	c := u.comparable(target, environment, test)
	if c == nil || c.At(1) == nil {
		return nil
	}
	return c.At(1).ToHost
}

// noInterval stands behind a number that has none.
const noInterval = " (no interval)"

// shownRatio is a ratio as a difference in percent with its interval.
func shownRatio(e stats.Estimate) string {
	text := signed(e.Value - 1)
	if e.Interval.Method == stats.MethodNone || e.Interval.Method == "" {
		return text + noInterval
	}
	return fmt.Sprintf("%s [%s, %s]", text, signed(e.Interval.Low-1), signed(e.Interval.High-1))
}

// shownPlain is a number of about 1 with its interval.
func shownPlain(e stats.Estimate) string { return shown(e, 2) }

// shown is a number with its interval, to so many decimals.
func shown(e stats.Estimate, decimals int) string {
	text := fmt.Sprintf("%.*f", decimals, e.Value)
	if e.Interval.Method == stats.MethodNone || e.Interval.Method == "" {
		return text + noInterval
	}
	return fmt.Sprintf("%s [%.*f, %.*f]", text, decimals, e.Interval.Low, decimals, e.Interval.High)
}

// signed is a share in percent with its sign.
func signed(x float64) string { return fmt.Sprintf("%+.1f %%", 100*x) }
