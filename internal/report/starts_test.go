package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
)

// What a number is of stands beside it: the machine's waits are not the containers',
// CPU time that nobody could tell apart is nobody's, stolen time is not idle, and
// what has no value has no column.
func TestStartsSayWhatTheyAreOf(t *testing.T) {
	values := map[string]analysis.Estimate{}
	for _, m := range []string{"elapsed", "wall", "cpu", "context-switches", "run-queue-wait", "counted", "payload-pss", "client-pss"} {
		values[m] = analysis.Estimate{Value: 0.5}
	}
	points := []analysis.StartsPoint{{N: 100, Blocks: 1, Values: values,
		Shares: map[string]float64{analysis.ShareBusy: 0.6, analysis.ShareStolen: 0.3, analysis.ShareIdle: 0.1}}}
	s := &analysis.StartsClaims{
		Curves: []analysis.StartsCurve{{Name: "docker", Target: "docker", Unread: "daemons of the engine", Points: points}},
		Held:   []analysis.StartsCurve{{Name: "docker/cli", Target: "docker/cli", Points: points}},
	}
	out := startsSection(s)
	for _, words := range []string{"all tasks of the machine", "nobody can read the CPU time of the daemons of the engine", "more than 64 groups", "too few registers"} {
		if !strings.Contains(out.Note, words) {
			t.Errorf("no %q in %q", words, out.Note)
		}
	}
	for title, want := range map[string][][]string{
		"Where the elapsed time goes":   {{"target", "containers", "CPU, not told whose", "stolen by the hypervisor", "no CPU"}, {"docker", "100", "60 %", "30 %", "10 %"}},
		"Of each container, on average": {{"target", "containers", "under way", "CPU time", "waits on run queues, of all the machine", "waits for kernel locks"}, {"docker", "100", "500 ms", missing, "5.00 ms", missing}},
		"Memory of each container held": {{"target", "held", "PSS", "client PSS"}},
	} {
		i := slices.IndexFunc(out.Tables, func(g shownGrid) bool { return g.Title == title })
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
func TestStartsOfAGrid(t *testing.T) {
	points := []analysis.StartsPoint{{N: 50, Concurrency: 10, Failed: 2, Failure: "no room"}}
	s := &analysis.StartsClaims{
		Curves: []analysis.StartsCurve{{Name: "runc (10 at once)", Target: "runc", Workload: "start", Concurrency: 10, Points: points}},
		Scaling: []analysis.StartsScaling{
			{Name: "runc", Target: "runc", Workload: "start", N: 50, Points: points, NoLaw: "too few"},
			{Name: "runc", Target: "runc", Workload: "other", N: 50, Points: points, NoLaw: "too few"},
		},
	}
	if rows := failedGrid(s).Rows; len(rows) != 2 || rows[0][0] != "runc (10 at once)" || rows[1][0] != "runc" {
		t.Errorf("%q", rows)
	}
	if rows := startsGrid(s).Rows; rows[0][0] != "runc (10 at once)" {
		t.Errorf("%q", rows)
	}
	if rows := uslGrid(s).Rows; !slices.Equal(rows[0][:2], []string{"runc", "50"}) {
		t.Errorf("%q", rows)
	}
}
