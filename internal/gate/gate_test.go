package gate

import (
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

func between(low, high float64) stats.Interval {
	return stats.Interval{Low: low, High: high, Level: 0.95, Method: stats.MethodRank}
}

func effect(low, ratio, high float64, blocks int) *analysis.Effect {
	return &analysis.Effect{Ratio: ratio, Interval: between(low, high), Blocks: blocks}
}

// scene is a run with a group of starts and one of a command's memory.
func scene() Run {
	failure := func(f sample.Fault) *sample.Failure {
		return &sample.Failure{Fault: f, Message: "the wheel fell off"}
	}
	few := effect(0.9, 1.2, 1.6, 3)
	few.Reached, few.Need = 0.75, 6
	none := &analysis.Effect{Ratio: 1, Interval: stats.None(0), Blocks: 2}
	return Run{ID: "now", Skipped: map[string]string{"crun": "crun is not installed"}, Tables: []analysis.Table{
		{Group: "start", Workload: "start", Primary: true, Metric: sample.Metric{Name: "ready", Unit: sample.Seconds, Better: sample.Lower}, Rows: []analysis.Row{
			{Cell: "host/start", Target: "host", Control: true, Summary: analysis.Summary{N: 12, Median: 0.0102, Interval: between(0.0100, 0.0104)}},
			{Cell: "host~aa/start", Target: "host", AA: true, Effect: effect(1.4, 1.5, 1.6, 12)},
			{Cell: "slow/start", Target: "slow", Effect: effect(1.09, 1.10, 1.11, 12), Summary: analysis.Summary{N: 12, Median: 0.0112, Interval: between(0.0110, 0.0114)}},
			{Cell: "same/start", Target: "same", Effect: effect(0.99, 1.00, 1.01, 12)},
			{Cell: "wide/start", Target: "wide", Effect: effect(0.95, 1.00, 1.08, 12)},
			{Cell: "near/start", Target: "near", Effect: effect(0.95, 1.0499, 1.08, 12)},
			{Cell: "few/start", Target: "few", Effect: few},
			{Cell: "none/start", Target: "none", Effect: none},
			{Cell: "noisy/start", Target: "noisy", Effect: &analysis.Effect{Verdict: analysis.NotComparable, Why: "The control differs from its own twin."}},
			{Cell: "zero/start", Target: "zero", Effect: &analysis.Effect{Blocks: 12, Difference: &analysis.Difference{Median: 1}}},
			{Cell: "dead/start", Target: "dead", Failure: failure(sample.FaultTarget), Summary: analysis.Summary{Failed: 3}, Effect: effect(1, 1, 1, 9)},
			{Cell: "lab/start", Target: "lab", Failure: failure(sample.FaultLaboratory), Summary: analysis.Summary{Failed: 1}},
			{Cell: "a/b:c/start", Target: "a/b:/c", Effect: effect(0.99, 1.00, 1.01, 12)},
		}},
		{Group: "start", Workload: "start", Metric: sample.Metric{Name: "peak-memory", Unit: sample.Bytes, Better: sample.Lower}, Rows: []analysis.Row{
			{Cell: "slow/start", Target: "slow", Effect: effect(1.9, 2, 2.1, 12), Summary: analysis.Summary{N: 12, Median: 3 << 20, Interval: between(3<<20, 3<<20)}},
		}},
		{Group: "start+x4", Workload: "start", Primary: true, Metric: sample.Metric{Name: "ready", Unit: sample.Seconds, Better: sample.Lower}, Rows: []analysis.Row{
			{Cell: "slow/start+x4", Target: "slow", Effect: effect(1.19, 1.2, 1.21, 12)},
		}},
		{Group: "start~locks", Workload: "start", Primary: true, Metric: sample.Metric{Name: "wait", Unit: sample.Seconds, Better: sample.Lower}, Rows: []analysis.Row{
			{Cell: "slow/start~locks", Target: "slow", Effect: effect(8, 9, 10, 12)},
		}},
	}}
}

func judgeOne(t *testing.T, l study.Limit, run Run) []Answer {
	t.Helper()
	answers, err := Judge([]study.Limit{l}, run)
	if err != nil {
		t.Fatalf("%+v: %v", l, err)
	}
	return answers
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		cell, most, least string
		want              Verdict
		says              string
	}{
		{"start+x4/slow", "+5 %", "", Broken, "1.200 [1.190, 1.210] × the control, from 12 blocks: the whole interval is beyond the limit of at most +5 % (1.05)."},
		{"start/same", "+5 %", "", Met, "1.000 [0.990, 1.010] × host, from 12 blocks: the whole interval is within the limit of at most +5 % (1.05)."},
		{"start/same", "1.05", "95 %", Met, "at least 95 % and at most 1.05"},
		{"start/wide", "1.05", "", Open, "the interval contains the limit of at most 1.05; about 30 blocks would settle it."},
		{"start/wide", "1.05", "98 %", Open, "would settle it."},
		{"start/near", "1.05", "", Open, "too near to it"},
		{"start/few", "1.05", "", Open, "from 3 blocks: 6 are needed"},
		{"start/none", "1.05", "", Open, "from 2 blocks: 6 are needed"},
		{"start/noisy", "1.05", "", NotComparable, "The control differs from its own twin."},
		{"start/zero", "1.05", "", NotComparable, "give an absolute limit"},
		{"start/host", "1.05", "", NotComparable, "it is the control itself"},
		{"start/crun", "1.05", "", NotComparable, "crun was skipped: crun is not installed."},
		{"start/rumc", "1.05", "", NotComparable, "The run has no such cell; did you mean \"start/same\"? it has start/host, start/slow,"},
		{"start/slow:readyy", "1.05", "", NotComparable, "The cell has no metric readyy; did you mean \"ready\"? it has ready, peak-memory"},
		{"start/dead", "2", "", Failed, "3 trials failed, the first one: the wheel fell off"},
		{"start/dead:wall", "2", "", Failed, "3 trials failed"},
		{"start/lab", "2", "", NotComparable, "The laboratory is at fault"},
		{"start/host:ready", "11 ms", "", Met, "10.20 [10.00, 10.40] ms, from 12 blocks: the whole interval is within the limit of at most 11 ms."},
		{"start/host", "", "11 ms", Broken, "10.20 [10.00, 10.40] ms, from 12 blocks"},
		{"start/host", "10.1 ms", "", Open, "the interval contains the limit of at most 10.1 ms; about 48 blocks would settle it."},
		{"start/host", "3 MiB", "", NotComparable, "ready is in s, and the limit is in B."},
		{"start/slow:peak-memory", "3 MiB", "", Met, "3 [3, 3] MiB"},
		{"start/a/b:/c", "1.05", "", Met, "1.000"},
	} {
		answers := judgeOne(t, study.Limit{Cell: c.cell, AtMost: c.most, AtLeast: c.least}, scene())
		got := answers[0]
		if got.Verdict != c.want || !strings.Contains(got.Why, c.says) {
			t.Errorf("%s at most %q, at least %q: %s (%s), want %s (%s)", c.cell, c.most, c.least, got.Verdict, got.Why, c.want, c.says)
		}
	}
}

// A workload stands for all of its groups, * for all targets but the control, and
// what a probe watches is judged by its own name alone.
func TestCellsOfALimit(t *testing.T) {
	for cell, want := range map[string]string{
		"start/slow":        "start/slow start+x4/slow",
		"start+x4/*":        "start+x4/slow",
		"start~locks/slow":  "start~locks/slow",
		"start/*:ready":     "start/slow start/same start/wide start/near start/few start/none start/noisy start/zero start/dead start/lab start/a/b:/c start+x4/slow",
		"start/slow:ready":  "start/slow start+x4/slow",
		"elsewhere/slow":    "elsewhere/slow",
		"start/host:absent": "start/host",
	} {
		var got []string
		for _, a := range judgeOne(t, study.Limit{Cell: cell, AtMost: "1.05"}, scene()) {
			got = append(got, a.Cell)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", cell, got, want)
		}
	}
}

// With a baseline, ratios are to it unless the limit says otherwise; values are not.
func TestBaseline(t *testing.T) {
	run := scene()
	n := analysis.Summary{N: 12}
	run.Baseline, run.Comparisons = "before", []analysis.Comparison{{Group: "start", Metric: sample.Metric{Name: "ready"}, Rows: []analysis.Change{
		{Cell: "host/start", Control: true, A: n, B: n}, {Cell: "slow/start", A: n, B: n, Effect: effect(0.99, 1, 1.01, 12)},
		{Cell: "same/start", A: n, B: n, Effect: effect(1.2, 1.3, 1.4, 12)}, {Cell: "near/start", A: analysis.Summary{Failed: 12}, B: n},
	}}}
	for _, c := range []struct {
		cell    string
		against study.Against
		most    string
		want    Verdict
		says    string
	}{
		{"start/slow:ready", "", "1.05", Met, "× run before"},
		{"start/slow:ready", study.AgainstControl, "1.05", Broken, "× host"},
		{"start/same", "", "1.05", Broken, "1.30"},
		{"start/host", "", "1.05", NotComparable, "It is the control"},
		{"start/wide", "", "1.05", NotComparable, "The baseline has no such cell"},
		{"start/near", "", "1.05", NotComparable, "All its trials failed in the baseline"},
		{"start/host", "", "11 ms", Met, "10.2"},
	} {
		got := judgeOne(t, study.Limit{Cell: c.cell, AtMost: c.most, Against: c.against}, run)[0]
		if got.Verdict != c.want || !strings.Contains(got.Why, c.says) {
			t.Errorf("%s against %q: %s (%s), want %s (%s)", c.cell, c.against, got.Verdict, got.Why, c.want, c.says)
		}
	}
	if _, err := Judge([]study.Limit{{Cell: "start/slow", AtMost: "2", Against: study.AgainstBaseline}}, scene()); err == nil || !strings.Contains(err.Error(), "--baseline") {
		t.Error(err)
	}
}

func TestWorst(t *testing.T) {
	all := []Verdict{Met, Open, NotComparable, Broken, Failed}
	var answers []Answer
	if got := Worst(nil); got != Met {
		t.Errorf("nothing: %s", got)
	}
	for _, v := range all {
		answers = append(answers, Answer{Verdict: v})
		if got := Worst(answers); got != v {
			t.Errorf("%d answers: %s, want %s", len(answers), got, v)
		}
	}
}
