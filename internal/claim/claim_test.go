package claim

import (
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/stats"
)

func measured(value, low, high float64) Value {
	return Value{Estimate: stats.Estimate{Value: value, Interval: stats.Interval{Low: low, High: high, Level: 0.95, Method: stats.MethodOrder}}}
}

func TestEvaluate(t *testing.T) {
	cells := Of(map[string]Value{
		"a": Exactly(6), "t.x-y.4": Exactly(3), "m": measured(4, 3, 5), "n": measured(2, 1, 3),
		"a / t.x-y.4": measured(2.1, 2, 2.2), "z": measured(0.1, -1, 1),
	})
	for expression, want := range map[string]Value{
		`a - t["x-y"][4]`:       Exactly(3),
		`-(a + 2) * 2`:          Exactly(-16),
		`median(a, 2, 3, 4)`:    Exactly(3.5),
		`a / t["x-y"][4]`:       measured(2.1, 2, 2.2), // as measured
		`100 * (m - 1)`:         measured(300, 200, 400),
		`12 / m`:                measured(3, 2.4, 4),
		`m - n`:                 measured(2, 0, 4),
		`max(m, n) - min(m, n)`: measured(2, 0, 4),
	} {
		got, err := evaluate(expression, cells)
		if err != nil || got.Value != want.Value || got.Interval != want.Interval {
			t.Errorf("%s: %+v, %v; want %+v", expression, got, err, want)
		}
	}
	if v, err := evaluate("a / z", cells); err != nil || v.Interval.Decides() {
		t.Errorf("a quotient by what may be zero decides: %+v, %v", v, err)
	}
}

const sentence = `{name: one, text: It is so, where: table 1, `

// Whatever a file can have wrong is found when it is read.
func TestReadRefuses(t *testing.T) {
	for file, want := range map[string]string{
		sentence + `each: [{is: a / hots, from: 1}]}`:                                   `claim "one": expression "a / hots": no cell has the name "hots"`,
		sentence + `each: [{is: a /, from: 1}]}`:                                        `expression "a /"`,
		sentence + `each: [{is: a % 2, from: 1}]}`:                                      "none of + - * /",
		sentence + `each: [{is: sum(a), from: 1}]}`:                                     `no function "sum"`,
		sentence + `each: [{is: a / 0, from: 1}]}`:                                      "gives no number",
		sentence + `each: [{is: 'a[b]', from: 1}]}`:                                     "no number and no string",
		sentence + `each: [{is: a}]}`:                                                   "needs a bound",
		sentence + `each: [{is: a, from: 1, here: {}}]}`:                                "here needs a bound",
		sentence + `each: [{is: a, from: 1}], shown: "{c %.1f}"}`:                       `no cell has the name "c"`,
		sentence + `each: [{is: a, from: 1}], text: twice}`:                             "text",
		sentence + `each: [{is: a, form: 1}]}`:                                          "form",
		sentence + `judge: own, each: [{is: a, from: 1}]}`:                              "needs one of",
		sentence + `judge: other}`:                                                      `"own" judges no claim`,
		sentence + "judge: own}\n- {name: two, text: It, where: table 1, judge: third}": `no function has the name "third"`,
		sentence + "judge: own}\n- " + sentence + "judge: own}":                         `two claims have the name "one"`,
		`{name: one, text: It is so, judge: own}`:                                       "where",
	} {
		_, err := Read([]byte("- "+file), map[string]float64{"a": 1}, "own")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}

func judged(t *testing.T, file string, functions map[string]Function, targets ...Target) []finding.Claim {
	t.Helper()
	var names []string
	for name := range functions {
		names = append(names, name)
	}
	c, err := Read([]byte(file), map[string]float64{"a": 6, "b": 3}, names...)
	if err != nil {
		t.Fatal(err)
	}
	return c.Judge(functions, targets...)
}

// The same expression is judged over the published cells and over one's own; one's own
// by the interval.
func TestJudge(t *testing.T) {
	const two = "- " + sentence + "each: [{is: a / b, from: 1.9, to: 2.1}, {is: b, from: 2, here: {near: 0.5}}], as: '%.1f'}"
	exactly := func(cells map[string]Value) []finding.Claim { return judged(t, two, nil, Target{"here", Of(cells)}) }
	good := measured(3, 2.9, 3.1)
	refused, doubtful := good, good
	refused.Refused, refused.Notes = true, []string{"it was busy"}
	doubtful.Doubtful = true
	for name, c := range map[string]struct {
		cells map[string]Value
		want  finding.Verdict
	}{
		"within":            {map[string]Value{"a / b": measured(2, 1.95, 2.05), "b": good}, finding.BorneOut},
		"across":            {map[string]Value{"a / b": measured(2, 1.8, 2.05), "b": good}, finding.Open},
		"beyond":            {map[string]Value{"a / b": measured(3, 2.8, 3.2), "b": good}, finding.NotBorne},
		"beyond the second": {map[string]Value{"a / b": measured(2, 1.95, 2.05), "b": measured(9, 8, 10)}, finding.NotBorne},
		"without the first": {map[string]Value{"b": good}, finding.Open},
		"refused":           {map[string]Value{"b": refused}, finding.Refused},
		"doubtful":          {map[string]Value{"a / b": measured(2, 1.95, 2.05), "b": doubtful}, finding.Open},
		"too few":           {map[string]Value{"a / b": {Estimate: stats.Estimate{Value: 2, Interval: stats.None(2)}}, "b": good}, finding.Open},
	} {
		claims := exactly(c.cells)
		if len(claims) != 1 || claims[0].Verdict != finding.BorneOut || claims[0].Computed != "2.0, 3.0; judged as 1.9 to 2.1, at least 2" || claims[0].Where != "table 1" {
			t.Fatalf("published: %+v", claims)
		}
		if here := claims[0].Here; len(here) != 1 || here[0].Verdict != c.want || c.want == finding.Refused && !strings.HasSuffix(here[0].Computed, "; it was busy") {
			t.Errorf("%s: %+v, want %s", name, here, c.want)
		}
	}
	if c := exactly(map[string]Value{"other": good})[0]; len(c.Here) != 0 {
		t.Errorf("without any cell it was asked: %+v", c.Here)
	}
}

// The more cases, the wider the interval by which one of them may refute.
func TestJudgeRefutesTogether(t *testing.T) {
	beyond := measured(9, 8, 10)
	beyond.Together = func(cases int) stats.Interval { i := beyond.Interval; i.Low -= 3 * float64(cases); return i }
	for file, want := range map[string]finding.Verdict{
		"each: [{is: b, to: 4}]}":                    finding.NotBorne,
		"each: [{is: b, to: 4}, {is: a, from: -9}]}": finding.Open,
	} {
		c := judged(t, "- "+sentence+file, nil, Target{"here", Of(map[string]Value{"a": measured(6, 5, 7), "b": beyond})})
		if c[0].Here[0].Verdict != want {
			t.Errorf("%s: %+v, want %s", file, c[0].Here, want)
		}
	}
}

// A doubt opens what the cells bear out, tare's own sentences are marked, and a function
// judges what no expression fits, by its name.
func TestJudgeOther(t *testing.T) {
	c := judged(t, `
- {name: last, text: It is, where: page 3, judge: law}
- {name: doubtful, text: It may be, where: table 2, each: [{is: a - b, from: 3}], doubt: another table, shown: "{a %.0f} less {b %.0f}"}
- {name: own, text: It must be, where: tare, not_here: true, each: [{is: b, to: 2}]}
- {name: open, text: It could be, where: page 4, open: nobody counted}
`, map[string]Function{"law": func() finding.Claim { return finding.Claim{Computed: "by a law", Verdict: finding.BorneOut} }},
		Target{"here", Of(map[string]Value{"b": Exactly(1)})})
	for i, want := range []finding.Claim{
		{Text: "It is", Where: "page 3", Computed: "by a law", Verdict: finding.BorneOut},
		{Text: "It may be", Where: "table 2", Computed: "6 less 3; judged as at least 3; doubtful: another table", Verdict: finding.Open},
		{Text: "It must be", Own: true, Computed: "3; judged as at most 2", Verdict: finding.NotBorne},
		{Text: "It could be", Where: "page 4", Computed: "nobody counted", Verdict: finding.Open},
	} {
		got := c[i]
		if len(got.Here) != 0 || got.Text != want.Text || got.Where != want.Where || got.Own != want.Own || got.Computed != want.Computed || got.Verdict != want.Verdict {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// What was published cannot judge it, and one's own machine can.
func TestOpenHasCasesForHere(t *testing.T) {
	c := judged(t, `[{name: one, text: It is so, where: table 1, open: nobody counted, each: [{is: own / other, from: 1}]}]`, nil,
		Target{"here", Of(map[string]Value{"own / other": Exactly(2)})}, Target{"there", Of(map[string]Value{"own / other": Exactly(0.5)})}, Target{"nowhere", Of(nil)})[0]
	if c.Verdict != finding.Open || c.Computed != "nobody counted" || len(c.Here) != 2 || c.Here[0].Verdict != finding.BorneOut || c.Here[1].Verdict != finding.NotBorne {
		t.Errorf("%+v", c)
	}
}

// One of ten cases that lies just beyond the bound refutes nothing: by chance alone one of
// ten intervals of 95 % does.
func TestManyCasesWiden(t *testing.T) {
	e := stats.Estimate{Value: 1.1, Interval: stats.Interval{Low: 1.06, High: 1.142, Level: 0.95, Method: stats.MethodRank}}
	for cases, beyond := range map[int]bool{1: true, 10: false} {
		if i := widened(e, cases); (i.Low > 1.05) != beyond || i.Low > e.Interval.Low || i.High < e.Interval.High {
			t.Errorf("one of %d cases: %+v", cases, i)
		}
	}
}
