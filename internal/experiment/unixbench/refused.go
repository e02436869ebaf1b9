package unixbench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

// fallsRefused is the fall of a curve that the machine's noise has spoilt.
const fallsRefused fall = "refused"

// refusedTest is a test in an environment that a run claims nothing of.
type refusedTest struct {
	Environment string `json:"environment"`
	Test        string `json:"test"`
	Why         string `json:"why"` // as its table says: noise, drift, a control that failed
}

// refusal is what a run of the Unix tests claims nothing of.
type refusal struct {
	Run   string        // why the whole run is refused; "" where it is not
	Tests []refusedTest // those whose tables are refused, in the order of the tables
}

// refusals refuses what the price lists refuse: a test in an environment
// where one of its tables is refused, and the whole run where too many tests
// are, or too many trials warn of noise, both by the share at which a price
// list is refused. Trials of several instances press the machine themselves
// and do not count.
func refusals(in input) refusal {
	if why := analysis.EmulatedRun(in.Emulated); why != "" {
		return refusal{Run: strings.TrimRight(why, ".")}
	}
	tests, of := refusedTests(in)
	r := refusal{Run: disturbedRun(in), Tests: tests}
	if r.Run == "" && float64(len(tests)) > analysis.DisturbedShare*float64(of) {
		r.Run = fmt.Sprintf("%d of %d tests in their environments are refused, more than %s (first: %s)", len(tests), of, quantity.Percent(analysis.DisturbedShare), tests[0])
	}
	return r
}

// String is the test with its reason, without a full stop.
func (r refusedTest) String() string { return r.place() + ": " + strings.TrimRight(r.Why, ".") }

func (r refusedTest) place() string {
	return fmt.Sprintf("%s (%s)", r.Test, placeName(r.Environment))
}

// refusedTests are the tests with a refused table, out of so many.
func refusedTests(in input) (refused []refusedTest, of int) {
	type place struct{ environment, test string }
	seen, told := map[place]bool{}, map[place]bool{}
	for _, t := range in.Tables {
		i := slices.IndexFunc(in.Cells, func(c study.Cell) bool { return c.Group == t.Group })
		if i < 0 || t.Metric.Name != sample.UnixScore && t.Metric.Name != sample.UnixCPUScore {
			continue
		}
		for _, environment := range in.Cells[i].Environments() {
			p := place{environment, t.Workload}
			seen[p] = true
			if t.Refused != "" && !told[p] {
				told[p] = true
				refused = append(refused, refusedTest{p.environment, p.test, t.Refused})
			}
		}
	}
	return refused, len(seen)
}

// disturbedRun says that too many trials of a run warn of noise.
func disturbedRun(in input) string {
	alone := map[string]bool{}
	for _, c := range in.Cells {
		alone[c.ID] = c.Copies <= 1
	}
	disturbed, trials := 0, 0
	example := ""
	for _, r := range in.Records {
		if !alone[r.Cell] {
			continue
		}
		trials++
		if i := slices.IndexFunc(r.Warnings, sample.Warning.Disturbed); i >= 0 {
			disturbed++
			example = cmp.Or(example, r.Warnings[i].String())
		}
	}
	if float64(disturbed) <= analysis.DisturbedShare*float64(trials) {
		return ""
	}
	return fmt.Sprintf("%d of %d trials of one instance were disturbed (first: %s); measure again when the machine is quiet", disturbed, trials, strings.TrimRight(example, "."))
}

// Finding tells the refusals in a sentence; "" where there is none.
func (r refusal) Finding() string {
	if r.Run != "" {
		return "Refused: " + r.Run + ". What follows describes the run and claims nothing of the machine."
	}
	if len(r.Tests) == 0 {
		return ""
	}
	return fmt.Sprintf("Refused, with every claim that rests on them: %s.", tellRefused(r.Tests))
}

// tellRefused names tests, each reason once.
func tellRefused(tests []refusedTest) string {
	var parts []string
	for i, r := range tests {
		if slices.ContainsFunc(tests[:i], func(before refusedTest) bool { return before.Why == r.Why }) {
			continue
		}
		var places []string
		for _, other := range tests[i:] {
			if other.Why == r.Why {
				places = append(places, other.place())
			}
		}
		parts = append(parts, strings.Join(places, ", ")+": "+strings.TrimRight(r.Why, "."))
	}
	return strings.Join(parts, "; ")
}

// Of is why nothing is claimed of a test in an environment, "" where something
// may be.
func (r refusal) Of(environment, test string) string {
	if r.Run != "" {
		return r.Run
	}
	i := slices.IndexFunc(r.Tests, func(t refusedTest) bool { return t.Environment == environment && t.Test == test })
	if i < 0 {
		return ""
	}
	return r.Tests[i].Why
}

// ofIndex is the same for an index over tests.
func (r refusal) ofIndex(environment string, tests []string) string {
	if r.Run != "" {
		return r.Run
	}
	for _, test := range tests {
		if why := r.Of(environment, test); why != "" {
			return holds(test, why)
		}
	}
	return ""
}

// holds says why an index is refused: by a test that it holds.
func holds(test, why string) string {
	return fmt.Sprintf("It holds %s: %s.", test, strings.TrimRight(why, "."))
}

// refuse marks a curve whose test is refused, and an index that holds one.
func (c *curve) refuse(tests []refusedTest) {
	for _, r := range tests {
		switch {
		case r.Environment != c.Environment:
			continue
		case r.Test == c.Test:
			c.refuseAs(r.Why)
		case slices.Contains(c.Tests, r.Test):
			c.refuseAs("It holds " + r.String() + ".")
		default:
			continue
		}
		return
	}
}

// refuseAs claims nothing of a curve, for a reason.
func (c *curve) refuseAs(why string) {
	c.Refused = why
	if c.Law != nil {
		c.Law.Falls = fallsRefused
	}
}

// refusedIn says whether a test of a target is refused in an environment. The test
// "index" is the index beside the published one.
func (u *description) refusedIn(target, test, environment string) bool {
	return u.Refused != "" || slices.ContainsFunc(u.Curves, func(c curve) bool {
		same := c.Test == test && (test != indexName || c.Clock == cpuClock)
		return c.Refused != "" && c.Target == target && same && c.Environment == environment
	})
}
