package unixbench

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/stats"
)

// checkClaims recomputes the publication's claims, and asks each that one
// machine can answer of every container target here.
func checkClaims(u *description, d *source) ([]finding.Claim, error) {
	claims, err := publishedClaims(d)
	if err != nil {
		return nil, err
	}
	for i, q := range questions() {
		for _, target := range u.containerTargets() {
			if here, ok := q.ask(u, target); ok {
				here.Target = target
				if q.over != nil && here.Verdict == finding.BorneOut && !q.over(u) {
					here.Verdict = finding.Open // what was measured bears it out, and it says more than that
				}
				if u.refusedIn(target, q.test, q.environments) {
					here.Verdict = finding.Refused
				}
				claims[i].Here = append(claims[i].Here, here)
			}
		}
	}
	return claims, nil
}

// question is one claim and what its answer rests on.
type question struct {
	test         string // "" for each of the index's tests
	environments []string
	ask          answer
	// over says whether a run has all that the claim is over; nil where that is
	// one number. Less can refute it, and cannot bear it out.
	over func(u *description) bool
}

// answer asks one claim of a target; ok is false where the run lacks the cells.
type answer func(u *description, target string) (here finding.Answer, ok bool)

// questions stand in the order of publishedClaims, whose later claims concern
// other machines or the publication itself.
func questions() []question {
	return []question{
		{"", []string{envOneCPU}, hereFalls, (*description).hasListed},
		{"whetstone", []string{envAllN}, hereWhetstoneStays, nil},
		{"whetstone", []string{envAllN, envAllOne}, hereEightLikeFour, hasEnvironments(envAllN, envAllOne)},
		{indexAsPublished, []string{envAllN, envOneCPU, envAllOne}, hereAboutFive, hasEnvironments(envAllN, envOneCPU, envAllOne)},
		hereDiffers(envAllN, "whetstone", 0.117), hereDiffers(envAllN, "dhrystone2", 0.040),
		hereDiffers(envAllN, indexAsPublished, -0.014), hereDiffers(envAllN, "process-creation", -0.051),
		hereDiffers(envOneCPU, "process-creation", -0.134),
	}
}

// hasListed says whether all tests that the published tables list ran here.
func (u *description) hasListed() bool { return len(u.Tests) == u.Listed }

// hasEnvironments says whether all of these were measured, or came to the same as
// one that was.
func hasEnvironments(names ...string) func(*description) bool {
	return func(u *description) bool {
		return !slices.ContainsFunc(names, func(name string) bool {
			return !slices.ContainsFunc(u.Curves, func(c curve) bool { return c.Environment == name })
		})
	}
}

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

// inEach is the verdict on a claim that has to hold in every case. To bear it out
// takes each case's own interval, which together err no more than one. One case
// alone refutes it, the more likely by chance the more there are: for that the
// intervals are widened to hold at 95 % for all of them together (Bonferroni).
func (u *description) inEach(cases []stats.Estimate, low, high float64) finding.Verdict {
	verdict := finding.BorneOut
	for _, e := range cases {
		switch finding.Within(e, low, high) {
		case finding.NotBorne:
			e.Interval = widened(e, len(cases), u.Repetitions)
			if finding.Within(e, low, high) == finding.NotBorne {
				return finding.NotBorne
			}
			verdict = finding.Open
		case finding.Open:
			verdict = finding.Open
		}
	}
	return verdict
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

func hereFalls(u *description, target string) (finding.Answer, bool) {
	var cases []stats.Estimate
	low, high := math.Inf(1), math.Inf(-1)
	var lowTest, highTest, fitted string
	for _, test := range u.Tests {
		c := u.comparable(target, envOneCPU, test)
		if c == nil || c.Law == nil || c.Clock == cpuClock {
			continue
		}
		b, over := c.Law.Decay, c.Counts()
		if both := c.Law.Beside; both != nil {
			b, over = both.Decay, both.Counts
		}
		fitted = rangeOf(over)
		cases = append(cases, b)
		if b.Value < low {
			low, lowTest = b.Value, test
		}
		if b.Value > high {
			high, highTest = b.Value, test
		}
	}
	text := fmt.Sprintf("b over %s from %.2f (%s) to %.2f (%s)", fitted, low, lowTest, high, highTest)
	if !u.hasListed() {
		text += fmt.Sprintf("; over %d of the %d tests that were published", len(u.Tests), u.Listed)
	}
	return finding.Answer{Computed: text, Verdict: u.inEach(cases, leastOneN, mostOneN)}, len(cases) > 0
}

func hereWhetstoneStays(u *description, target string) (finding.Answer, bool) {
	c := u.Curve(target, envAllN, "whetstone", cpuClock)
	if c == nil || c.Law == nil {
		return finding.Answer{}, false
	}
	var cases []stats.Estimate
	worst := stats.Estimate{Value: 1}
	for _, p := range c.Points {
		if p.N < 2 || p.ToOne == nil {
			continue
		}
		cases = append(cases, *p.ToOne)
		if math.Abs(math.Log(p.ToOne.Value)) >= math.Abs(math.Log(worst.Value)) {
			worst = *p.ToOne
		}
	}
	text := "by CPU time, farthest from one container: " + shownRatio(worst)
	if w := u.Curve(target, envAllN, "whetstone", wallClock); w != nil && w.Law != nil {
		text += fmt.Sprintf("; by wall time it falls with b = %s", shownPlain(w.Law.Decay))
	}
	return finding.Answer{Computed: text + "; within 2 % of one container", Verdict: u.inEach(cases, 0.98, 1.02)}, len(cases) > 0
}

func hereEightLikeFour(u *description, target string) (finding.Answer, bool) {
	var cases []stats.Estimate
	text := ""
	for _, environment := range []string{envAllOne, envAllN} {
		c := u.Curve(target, environment, "whetstone", cpuClock)
		if c == nil || c.At(8) == nil || c.At(4) == nil {
			continue
		}
		r := c.At(8).over(c.At(4))
		if r == nil {
			continue
		}
		cases = append(cases, *r)
		text += fmt.Sprintf("%s in %s; ", shownRatio(*r), environment)
	}
	return finding.Answer{Computed: text + "within 2 %", Verdict: u.inEach(cases, 0.98, 1.02)}, len(cases) > 0
}

func hereAboutFive(u *description, target string) (finding.Answer, bool) {
	var cases []stats.Estimate
	text := ""
	for _, environment := range []string{envAllN, envOneCPU, envAllOne} {
		if r := u.oneToHost(target, environment, indexAsPublished); r != nil {
			cases = append(cases, *r)
			text += fmt.Sprintf("%s in %s; ", shownRatio(*r), environment)
		}
	}
	return finding.Answer{Computed: fmt.Sprintf("index over all %d tests: %sabout 5 %% is 2.5 to 7.5 in each", len(allTests()), text), Verdict: u.inEach(cases, 1.025, 1.075)}, len(cases) > 0
}

// oneToHost is a test in one container against the host, nil where one is missing.
func (u *description) oneToHost(target, environment, test string) *stats.Estimate {
	c := u.comparable(target, environment, test)
	if c == nil || c.At(1) == nil {
		return nil
	}
	return c.At(1).ToHost
}

// hereDiffers asks whether a difference of one container to the host is here
// what it was there, give or take two percent of the score.
func hereDiffers(environment, test string, claimed float64) question {
	return question{test: test, environments: []string{environment}, ask: func(u *description, target string) (finding.Answer, bool) {
		r := u.oneToHost(target, environment, test)
		if r == nil {
			return finding.Answer{}, false
		}
		return finding.Answer{Computed: shownRatio(*r) + "; the same is within 2 points", Verdict: finding.Within(*r, 1+claimed-0.02, 1+claimed+0.02)}, true
	}}
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
