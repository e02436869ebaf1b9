package concurrentstart

import (
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/stats"
)

// What a number is of stands beside it: the machine's waits are not the containers',
// CPU time that nobody could tell apart is nobody's, stolen time is not idle, and
// what has no value has no column.
func TestStartsSayWhatTheyAreOf(t *testing.T) {
	values := map[string]stats.Estimate{}
	for _, m := range []string{"elapsed", "wall", "cpu", "context-switches", "run-queue-wait", "counted", "payload-pss", "client-pss"} {
		values[m] = stats.Estimate{Value: 0.5}
	}
	points := []point{{N: 100, Blocks: 1, Values: values,
		Shares: map[string]float64{shareBusy: 0.6, shareStolen: 0.3, shareIdle: 0.1}}}
	s := &description{
		Curves: []curve{{Name: "docker", Target: "docker", Unread: "daemons of the engine", Points: points}},
		Held:   []curve{{Name: "docker/cli", Target: "docker/cli", Points: points}},
	}
	out := section(s, nil)
	for _, words := range []string{"all tasks of the machine", "nobody can read the CPU time of the daemons of the engine", "more than 64 groups", "too few registers"} {
		if !strings.Contains(out.Note, words) {
			t.Errorf("no %q in %q", words, out.Note)
		}
	}
	for title, want := range map[string][][]string{
		"Where the elapsed time goes":   {{"target", "containers", "CPU, not told whose", "stolen by the hypervisor", "no CPU"}, {"docker", "100", "60 %", "30 %", "10 %"}},
		"Of each container, on average": {{"target", "containers", "under way", "CPU time", "waits on run queues, of all the machine", "waits for kernel locks"}, {"docker", "100", "500 ms", quantity.Missing, "5.00 ms", quantity.Missing}},
		"Memory of each container held": {{"target", "held", "PSS", "client PSS"}},
	} {
		i := slices.IndexFunc(out.Tables, func(g finding.Table) bool { return g.Title == title })
		if i < 0 {
			t.Errorf("no table %q", title)
			continue
		}
		if g := out.Tables[i]; !slices.Equal(g.Head, want[0]) || len(want) > 1 && !slices.Equal(g.Rows[0], want[1]) {
			t.Errorf("%s: %q, %q", title, g.Head, g.Rows)
		}
	}
	parts := timeFigure(s)[0].Bars[0].Parts
	if len(parts) != 3 || parts[0].Name != "CPU, not told whose" || parts[1].Name != "stolen" {
		t.Errorf("%+v", parts)
	}
}

// A cell that is in two curves fails once, and rows of one target are told apart.
func TestTablesOfAGrid(t *testing.T) {
	points := []point{{N: 50, Concurrency: 10, Failed: 2, Failure: "no room"}}
	s := &description{
		Curves: []curve{{Name: "runc (10 at once)", Target: "runc", Workload: "start", Concurrency: 10, Points: points}},
		Scaling: []scaling{
			{Name: "runc", Target: "runc", Workload: "start", N: 50, Points: points, NoLaw: "too few"},
			{Name: "runc", Target: "runc", Workload: "other", N: 50, Points: points, NoLaw: "too few"},
		},
	}
	if rows := failedTable(s).Rows; len(rows) != 2 || rows[0][0] != "runc (10 at once)" || rows[1][0] != "runc" {
		t.Errorf("%q", rows)
	}
	if rows := startsTable(s).Rows; rows[0][0] != "runc (10 at once)" {
		t.Errorf("%q", rows)
	}
	if rows := uslTable(s).Rows; !slices.Equal(rows[0][:2], []string{"runc", "50"}) {
		t.Errorf("%q", rows)
	}
}

// Every law has its numbers with their intervals and its weight; growth between
// numbers says between which.
func TestLawsAreAllShown(t *testing.T) {
	exactly := func(v float64) stats.Estimate {
		return stats.Estimate{Value: v, Interval: stats.Interval{Low: 0.9 * v, High: 1.1 * v, Level: 0.95, Method: stats.MethodBootstrap}}
	}
	exponent := exactly(1.5)
	one := curve{
		Name: "runc", NoLaw: "3 values are too few", Points: []point{{N: 1, Blocks: 6}, {N: 10, Blocks: 6}, {N: 50, Blocks: 6}}, ElapsedExponent: &exponent,
		Elapsed: &stats.Laws{Why: "power fits best", Provisional: true, Fits: []stats.Law{
			{Name: stats.LawPower, A: exactly(2), B: exactly(1.5), Weight: 0.9, Share: 0.97, Error: 0.02},
			{Name: stats.LawLinear, A: exactly(3), B: exactly(0.05), Weight: 0.1, Share: 0.03, Error: 0.1},
			{Name: stats.LawExponential, A: exactly(4), B: exactly(0.001), Error: 0.5},
		}},
	}
	s := &description{Curves: []curve{one}}
	for _, c := range []struct{ got, want [][]string }{
		{lawsTable(s).Rows, [][]string{
			{"runc", "elapsed", "power, a n^b", "2.00 s [1.80, 2.20]", "1.50 [1.35, 1.65]", "2 %", "90 %", "97 %"},
			{"runc", "elapsed", "linear, a + b n", "3.00 s [2.70, 3.30]", "50.0 ms [45.0, 55.0]", "10 %", "10 %", "3 %"},
			{"runc", "elapsed", "exponential, a e^(b n)", "4.00 s [3.60, 4.40]", "0.001 [0.0009, 0.0011]", "50 %", "0 %", "0 %"},
			{"runc", "elapsed", "n^b, from 10 to 50 containers", quantity.Missing, "1.50 [1.35, 1.65]", quantity.Missing, quantity.Missing, quantity.Missing},
		}},
		{lawChoiceTable(s).Rows, [][]string{
			{"runc", "elapsed", "power, provisional", "power fits best"},
			{"runc", "CPU time", quantity.Missing, "3 values are too few"},
		}},
	} {
		if !slices.EqualFunc(c.got, c.want, slices.Equal[[]string]) {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestPeaksSayHowManyHaveOne(t *testing.T) {
	peak := stats.Estimate{Value: 30}
	for want, u := range map[string]stats.USL{
		"none": {}, "30.0": {Peak: &peak}, "30.0 in 97 % of replicates": {Peak: &peak, PeakShare: 0.97},
		"none: one in 34 % of replicates": {PeakShare: 0.34},
	} {
		if got := peakText(u); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
