package bridgenetwork

import (
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver/netpath"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

// Advice says by how much a metric changes, in its own direction, and by which command.
func TestAdvice(t *testing.T) {
	half := stats.Interval{Low: 1.6, High: 2.5, Method: stats.MethodOrder}
	for want, c := range map[string]choice{
		"Advice for host@bridge: mtu-9000 instead of apart (ip link set dev vethX mtu 9000) lowers rtt by 50 % (38 to 60) (rtt).": {
			What: "mtu-9000 instead of apart", How: "ip link set dev vethX mtu 9000", Workload: "rtt", Metric: sample.Metric{Name: "rtt", Better: sample.Lower}},
		"Advice for host@bridge: macvlan instead of bridge raises throughput by 100 % (60 to 150) (tcp).": {
			What: "macvlan instead of bridge", Workload: "tcp", Metric: sample.Metric{Name: "throughput", Better: sample.Higher}},
	} {
		c.Where, c.Gain, c.Interval, c.Verdict = "host@bridge", 2, half, analysis.Faster
		got := adviceFindings(&description{Choices: []choice{c}})
		if len(got) != 1 || got[0] != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Every path that a target can stand on has a drawing.
func TestEveryPathIsDrawn(t *testing.T) {
	for _, path := range netpath.Paths() {
		table := analysis.Table{Rows: []analysis.Row{{Target: "native@" + string(path)}, {Target: "host@" + string(path)}}}
		if f := waysFigure([]analysis.Table{table}); len(f.Chains) != 1 || f.Chains[0].Name != string(path) {
			t.Errorf("%s: %+v", path, f.Chains)
		}
	}
	if f := waysFigure([]analysis.Table{{Rows: []analysis.Row{{Target: "native"}}}}); len(f.Chains) != 0 {
		t.Errorf("a target on no path: %+v", f.Chains)
	}
}
