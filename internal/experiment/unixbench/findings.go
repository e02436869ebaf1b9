package unixbench

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/stats"
)

// placeName names an environment for people.
func placeName(environment string) string {
	switch environment {
	case envOneCPU:
		return "one CPU"
	case envAllN:
		return "all CPUs, a copy for each in every container"
	case envAllOne:
		return "all CPUs, one copy in each container"
	case "":
		return "no limits"
	}
	return environment
}

// findings says what the run shows: what fell, what did not, how fair, how
// far from 1/n, what a container costs. Every number has its interval, but in a
// run of one repetition, whose findings claim nothing. The law
// is the machine's more than the target's, so it is told in full of the first
// container target alone.
func findings(u *description) []string {
	out := sameFindings(u)
	for i, target := range u.containerTargets() {
		for j, environment := range u.environments(target) {
			w := where{u, target, environment}
			texts := []string{w.indexFalls(), w.fair(), w.costs()}
			if i == 0 {
				texts = []string{w.indexFalls(), w.testsFall(), w.bends(), w.overOneN(), w.fair(), w.costs()}
			}
			if i == 0 && j == 0 {
				texts = append(texts, w.clocks())
			}
			for _, text := range texts {
				if text != "" {
					out = append(out, w.finding(text))
				}
			}
		}
	}
	return out
}

// sameFindings name the environments that are one on this machine.
func sameFindings(u *description) []string {
	var out, told []string
	for _, c := range u.Curves {
		same := sameAs(u.Curves, c.Environment)
		if same == "" || slices.Contains(told, c.Environment) {
			continue
		}
		told = append(told, c.Environment)
		out = append(out, fmt.Sprintf("Here “%s” comes to the same as “%s”: it was measured once, and its numbers hold for each.",
			placeName(c.Environment), strings.ReplaceAll(same, "; ", "” and “")))
	}
	return out
}

// headline is the findings in a few sentences: the fall of the index and
// what a container costs, for the first container target.
func headline(u *description) []string {
	targets := u.containerTargets()
	if len(targets) == 0 {
		return nil
	}
	var out []string
	for _, environment := range u.environments(targets[0]) {
		w := where{u, targets[0], environment}
		for _, text := range []string{w.indexFalls(), w.costs()} {
			if text != "" {
				out = append(out, w.finding(text))
			}
		}
	}
	return out
}

// sameAs names the environments that came to the same as a measured one on the
// machine of the curves; "" where there are none.
func sameAs(curves []curve, environment string) string {
	var others []string
	for _, c := range curves {
		if name := placeName(c.Environment); c.MeasuredAs == environment && !slices.Contains(others, name) {
			others = append(others, name)
		}
	}
	return strings.Join(others, "; ")
}

// environments of a target that were measured, in order.
func (u *description) environments(target string) []string {
	var out []string
	for _, c := range u.Curves {
		if c.Target == target && c.MeasuredAs == "" && !slices.Contains(out, c.Environment) {
			out = append(out, c.Environment)
		}
	}
	return out
}

// where is one target in one environment.
type where struct {
	u                   *description
	target, environment string
}

// onceFinding stands before the findings of one repetition.
const onceFinding = "One repetition gives no interval: what follows describes this run, and claims nothing."

// finding is a sentence with its place. Of one repetition onceFinding has said
// already what each number would say.
func (w where) finding(text string) string {
	if w.u.Repetitions < 2 {
		text = strings.ReplaceAll(text, noInterval, "")
	}
	return fmt.Sprintf("%s, %s: %s.", w.target, placeName(w.environment), text)
}

// tests are the curves of tests, without indexes and refused ones and with both clocks.
func (w where) tests() []curve {
	var out []curve
	for _, c := range w.u.Curves {
		if c.Target == w.target && c.Environment == w.environment && c.Test != indexName && c.Test != indexAsPublished && c.Refused == "" {
			out = append(out, c)
		}
	}
	return out
}

// Name is a test with its clock, where that is not the wall's.
func (c curve) Name() string {
	switch {
	case c.Test == indexName && c.Clock == cpuClock:
		return "index"
	case c.Test == indexName:
		return "index by wall time, all tests"
	case c.Clock == cpuClock && c.Test != indexAsPublished:
		return c.Test + " (CPU time)"
	case c.Test == "whetstone":
		return c.Test + " (wall time)"
	}
	return c.Test
}

func (w where) indexFalls() string {
	c := w.u.Curve(w.target, w.environment, indexName, cpuClock)
	if c == nil || c.Law == nil || !w.u.hasListed() {
		return ""
	}
	if c.Refused != "" && w.u.Refused == "" {
		return "nothing is claimed of the index: it holds refused tests"
	}
	last := c.At(c.Law.Most)
	text := fmt.Sprintf("the index over %d tests %s over %s: %d containers at once leave each %s of the index of one (1/n would leave %.2f)",
		len(c.Tests), c.Law.told(), rangeOf(c.Counts()), last.N, shownPlain(*last.ToOne), 1/float64(last.N))
	both := c.Law.Beside
	if both == nil {
		return text
	}
	most := both.Counts[len(both.Counts)-1]
	there := w.u.PublishedCurve(w.environment, indexName).At(most).ToOne.Value
	return text + fmt.Sprintf("; over %s published b = %.2f (here %s), in %d containers %.2f (here %s)",
		rangeOf(both.Counts), both.Published.Decay.Value, shownPlain(both.Decay), most, there, shownPlain(*c.At(most).ToOne))
}

// told says how a score falls, with its exponent.
func (l *fallLaw) told() string {
	if l.Falls == fallsOpen || l.Falls == fallsRefused { // described, not claimed
		return "has b = " + shownPlain(l.Decay)
	}
	return fmt.Sprintf("%s, b = %s", l.Falls.verb(1), shownPlain(l.Decay))
}

// verb says how n things fall.
func (f fall) verb(n int) string {
	switch {
	case f == fallsNot && n == 1:
		return "does not fall"
	case f == fallsNot:
		return "do not fall"
	case n == 1:
		return "falls " + string(f)
	}
	return "fall " + string(f)
}

// testsFall counts the tests by the way they fall.
func (w where) testsFall() string {
	var parts []string
	for _, way := range []fall{fallsNot, fallsSlower, fallsAsOneN, fallsFaster, fallsSomehow, fallsOpen} {
		var names []string
		low, high := math.Inf(1), math.Inf(-1)
		for _, c := range w.tests() {
			if c.Law == nil || c.Law.Falls != way {
				continue
			}
			names = append(names, c.Name())
			for _, v := range []float64{c.Law.Decay.Value, c.Law.Decay.Interval.Low, c.Law.Decay.Interval.High} {
				low, high = min(low, v), max(high, v)
			}
		}
		switch {
		case len(names) == 0:
		case way == fallsOpen:
			parts = append(parts, fmt.Sprintf("%s without an interval, whose way to fall is open: %s (b from %.2f to %.2f)", quantity.Count(len(names), "score"), strings.Join(names, ", "), low, high))
		default:
			parts = append(parts, fmt.Sprintf("%s %s: %s (b and its intervals from %.2f to %.2f)", quantity.Count(len(names), "score"), way.verb(len(names)), strings.Join(names, ", "), low, high))
		}
	}
	return strings.Join(parts, "; ")
}

// bends names where the curves leave full speed: the median and the extremes.
func (w where) bends() string {
	var at []stats.Estimate
	for _, c := range w.tests() {
		if c.Law != nil && c.Law.Capacity != nil && c.Clock == wallClock {
			at = append(at, *c.Law.Capacity)
		}
	}
	if len(at) == 0 {
		return ""
	}
	slices.SortFunc(at, func(a, b stats.Estimate) int { return cmp.Compare(a.Value, b.Value) })
	middle := at[len(at)/2]
	if middle.Value < 1.2 {
		return ""
	}
	return fmt.Sprintf("the curves bend at %s containers (the middle one of %d tests; they range from %.1f to %.1f): so many run at full speed, and k/n is left from there on",
		shownPlain(middle), len(at), at[0].Value, at[len(at)-1].Value)
}

// clocks compares the two clocks of a test that has both.
func (w where) clocks() string {
	for _, c := range w.tests() {
		wall := w.u.Curve(w.target, w.environment, c.Test, wallClock)
		if c.Clock != cpuClock || c.Law == nil || wall == nil || wall.Law == nil {
			continue
		}
		return fmt.Sprintf("%s by CPU time %s; by wall time it %s: CPU time stands still while a container waits for a CPU, so a score by it cannot tell that it waits. Published rows of this test can only be by CPU time, and are compared with that",
			c.Test, c.Law.told(), wall.Law.told())
	}
	return ""
}

// overOneN names the test that is farthest from 1/n, by wall time.
func (w where) overOneN() string {
	var worst *curve
	for _, c := range w.tests() {
		if c.Law == nil || c.Clock != wallClock {
			continue
		}
		if worst == nil || math.Abs(math.Log(c.Law.OverOneN.Value)) > math.Abs(math.Log(worst.Law.OverOneN.Value)) {
			worst = &c
		}
	}
	if worst == nil {
		return ""
	}
	text := fmt.Sprintf("farthest from 1/n is %s: %d containers do %s times the work of one", worst.Test, worst.Law.Most, shownPlain(worst.Law.OverOneN))
	if usl := worst.Law.USL; usl != nil {
		text += fmt.Sprintf(" (scalability law: contention %s, coherency %s)", shownPlain(usl.Contention), shownSmall(usl.Coherency))
	}
	return text
}

func shownSmall(e stats.Estimate) string {
	if e.Interval.Method == stats.MethodNone || e.Interval.Method == "" {
		return fmt.Sprintf("%.2g", e.Value) + noInterval
	}
	return fmt.Sprintf("%.2g [%.2g, %.2g]", e.Value, e.Interval.Low, e.Interval.High)
}

// fair names the least fair test and number of containers.
func (w where) fair() string {
	var name string
	var worst point
	overlap := math.Inf(1)
	for _, c := range w.tests() {
		if c.Clock != wallClock {
			continue
		}
		for _, p := range c.Points {
			if p.Spread == nil {
				continue
			}
			if worst.Spread == nil || p.Spread.Slowest < worst.Spread.Slowest {
				name, worst = c.Test, p
			}
			if p.Overlap > 0 {
				overlap = min(overlap, p.Overlap)
			}
		}
	}
	if worst.Spread == nil {
		return ""
	}
	text := fmt.Sprintf("the least even is %s in %d containers: in its worst repetition the slowest got %.0f %% of the fastest; Jain's index is %s over all repetitions (1 is even)",
		name, worst.N, 100*worst.Spread.Slowest, shown(worst.Spread.Fairness, 3))
	if overlap <= 1 {
		text += fmt.Sprintf("; all containers were at work in %.1f %% or more of their timed windows", 100*overlap)
	}
	return text
}

// costs says what one container costs against the host.
func (w where) costs() string {
	var parts []string
	if index := w.u.oneToHost(w.target, w.environment, indexName); index != nil && w.u.hasListed() {
		parts = append(parts, "index "+shownRatio(*index))
		if w.u.Refused == "" && w.u.refusedIn(w.target, indexName, w.environment) {
			parts[0] = "the index is refused"
		}
	}
	var name string
	var worst *stats.Estimate
	for _, c := range w.tests() {
		if c.Clock != wallClock || c.At(1) == nil || c.At(1).ToHost == nil {
			continue
		}
		if r := c.At(1).ToHost; worst == nil || math.Abs(math.Log(r.Value)) > math.Abs(math.Log(worst.Value)) {
			name, worst = c.Test, r
		}
	}
	if worst != nil {
		parts = append(parts, fmt.Sprintf("the largest difference is %s, %s", name, shownRatio(*worst)))
	}
	if len(parts) == 0 {
		return ""
	}
	return "one container against the host: " + strings.Join(parts, "; ")
}
