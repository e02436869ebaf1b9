package bridgenetwork

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

// networkRun is a run in which each container on the bridge takes a share of the
// throughput, with noise of a given relative size.
func networkRun(loss, noise float64, blocks int) analysis.Input {
	rng := rand.New(rand.NewPCG(1, 2))
	throughput := sample.Metric{Name: "throughput", Unit: sample.BitsPerSecond, Better: sample.Higher}
	in := analysis.Input{Metrics: map[string][]sample.Metric{"tcp": {throughput}}, Blocks: blocks, Seed: 7}
	for _, n := range []int{2, 50, 200, 500} {
		level := study.Environment{Name: fmt.Sprintf("n%d", n), Network: &study.Network{Containers: n}}
		for _, target := range []string{"host@loopback", "native@loopback", "native@bridge"} {
			group := "tcp+" + level.Name
			in.Cells = append(in.Cells, study.Cell{ID: target + "/" + group, Target: target, Workload: "tcp", Group: group,
				Environment: level.Name, Limits: level, Copies: 1, Control: target == "host@loopback"})
		}
	}
	in.Data = analysis.NewData(in.Cells, 0)
	speed := map[string]float64{"host@loopback": 62.09e9, "native@loopback": 60.32e9, "native@bridge": 39.16e9}
	for block := range blocks {
		for _, c := range in.Cells {
			value := speed[c.Target] * (1 + noise*rng.NormFloat64())
			if c.Target == "native@bridge" {
				value *= 1 - loss*float64(c.Limits.Network.Containers-2)
			}
			in.Data.Add(&sample.Record{Block: block, Cell: c.ID, Values: map[string][]float64{"throughput": {value},
				"client-neighbours": {float64(c.Limits.Network.Containers - 1)}, "server-neighbours": {float64(c.Limits.Network.Containers - 1)}}})
		}
	}
	return in
}

func described(t *testing.T, in analysis.Input) *description {
	t.Helper()
	n, err := describe(in, analysis.Analyze(in).Tables, publication(t))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A loss as published is found, with an interval that holds it, and the three
// places are borne out.
func TestGrowthFindsTheLoss(t *testing.T) {
	n := described(t, networkRun(0.00004, 0.0005, 20))
	if len(n.Growth) != 1 {
		t.Fatalf("%d slopes: only the path with a bridge has one", len(n.Growth))
	}
	g := n.Growth[0]
	if !g.Verdict.Shown() || g.Interval.Low > -0.00004 || g.Interval.High < -0.00004 || math.Abs(g.Slope+0.00004) > 2e-6 {
		t.Errorf("%+v", g)
	}
	if g.Neighbours[500] != 499 || g.Neighbours[2] != 1 {
		t.Errorf("neighbours %v", g.Neighbours)
	}
	for _, c := range n.Claims[:3] { // the last is of the publication alone
		if len(c.Here) != 1 || c.Here[0].Verdict != finding.BorneOut {
			t.Errorf("%+v", c)
		}
	}
}

// A time that rises with the containers is slower, not faster.
func TestGrowthOfATime(t *testing.T) {
	in := networkRun(-0.00004, 0.0005, 20)
	in.Metrics["tcp"][0].Unit, in.Metrics["tcp"][0].Better = sample.Seconds, sample.Lower
	if g := described(t, in).Growth[0]; g.Verdict != analysis.Slower {
		t.Errorf("%+v", g)
	}
}

// Without a loss there is none, and what is too noisy to tell says so.
func TestGrowthWithoutLoss(t *testing.T) {
	if g := described(t, networkRun(0, 0.0005, 20)).Growth[0]; g.Verdict != analysis.Same {
		t.Errorf("no loss: %+v", g)
	}
	if g := described(t, networkRun(0, 0.2, 8)).Growth[0]; g.Verdict != analysis.Open {
		t.Errorf("noise: %+v", g)
	}
	if g := described(t, networkRun(0.00004, 0, 2)).Growth[0]; g.Verdict.Shown() || !strings.Contains(g.Why, "blocks") {
		t.Errorf("two blocks: %+v", g)
	}
}

// Where nothing arrives with any number of containers, or all that gave numbers are of one
// size, the slope is left out and the report is still made.
func TestGrowthWithoutASlope(t *testing.T) {
	for name, c := range map[string]struct {
		containers map[int]int // of the two levels that gave numbers
		value      float64
	}{
		"nothing arrives": {map[int]int{2: 2, 50: 50}, 0},
		"one size":        {map[int]int{2: 1, 50: 2}, 1e9},
	} {
		in := networkRun(0, 0, 1)
		in.Data = analysis.NewData(in.Cells, 0)
		for i := range in.Cells {
			cell := &in.Cells[i]
			n, measured := c.containers[cell.Limits.Network.Containers]
			if !measured {
				continue
			}
			cell.Limits.Network = &study.Network{Containers: n}
			for block := range 8 {
				in.Data.Add(&sample.Record{Block: block, Cell: cell.ID, Values: map[string][]float64{"throughput": {c.value}}})
			}
		}
		n := described(t, in)
		if g := n.Growth[0]; g.Verdict != analysis.Open || g.Slope != 0 || g.Why == "" {
			t.Errorf("%s: %+v", name, g)
		}
		for _, f := range growthFigures(n) {
			for _, l := range f.Lines {
				for _, p := range l.Points {
					if math.IsNaN(p.Y) {
						t.Errorf("%s: %s has a point without a number", name, l.Name)
					}
				}
			}
		}
	}
}

// A target whose trials all failed has no slope, and one of which a single number of
// containers was measured claims nothing.
func TestGrowthOfFailures(t *testing.T) {
	for measured, slopes := range map[int]int{0: 0, 2: 1} {
		in := networkRun(0, 0.001, 8)
		whole := in
		in.Data = analysis.NewData(in.Cells, 0)
		for _, c := range in.Cells {
			for block, value := range whole.Series(c.ID, "throughput").Values() {
				r := &sample.Record{Block: block, Cell: c.ID, Values: map[string][]float64{"throughput": {value}}}
				if c.Target == "native@bridge" && c.Limits.Network.Containers > measured {
					r = &sample.Record{Block: block, Cell: c.ID, Failure: &sample.Failure{Message: "nobody listened"}}
				}
				in.Data.Add(r)
			}
		}
		got := described(t, in).Growth
		if len(got) != slopes || slopes > 0 && got[0].Verdict != analysis.Open {
			t.Errorf("up to %d containers measured: %+v", measured, got)
		}
	}
}

// A choice's gain goes in the direction that is better, whatever the metric.
func TestChoices(t *testing.T) {
	in := networkRun(0, 0.001, 20)
	for _, c := range described(t, in).Choices {
		if c.What != "one container instead of two on a bridge" || math.Abs(c.Gain-60.32/39.16) > 0.01 || !c.Verdict.Shown() {
			t.Errorf("%+v", c)
		}
	}
	in.Metrics["tcp"][0].Better = sample.Lower
	if c := described(t, in).Choices[0]; math.Abs(c.Gain-39.16/60.32) > 0.01 {
		t.Errorf("where lower is better: %+v", c)
	}
}

// Choices of one workload are judged together: the more there are, the more blocks
// each needs. Another workload's do not count.
func TestChoicesAreJudgedTogether(t *testing.T) {
	for others, want := range map[int]analysis.Verdict{0: analysis.Faster, 2: analysis.Faster, 4: analysis.Open} {
		in := analysis.Input{Metrics: map[string][]sample.Metric{}, Blocks: 7, Seed: 7}
		level := study.Environment{Name: "apart", Network: &study.Network{}}
		for _, workload := range []string{"rtt", "udp-rtt"} {
			in.Metrics[workload] = []sample.Metric{{Name: sample.RTT, Unit: sample.Seconds, Better: sample.Lower}}
			for i, target := range append([]string{"host@loopback", "native@bridge", "native@veth"}, []string{"native@macvlan", "native@ipvlan", "native@nat", "native@proxy"}[:others]...) {
				in.Cells = append(in.Cells, study.Cell{ID: target + "/" + workload, Target: target, Workload: workload, Group: workload, Environment: "apart", Limits: level, Copies: 1, Control: i == 0})
			}
		}
		in.Data = analysis.NewData(in.Cells, 0)
		for block := range in.Blocks {
			for _, c := range in.Cells {
				value := 1.5
				if c.Target == "native@veth" {
					value = 1
				}
				in.Data.Add(&sample.Record{Block: block, Cell: c.ID, Values: map[string][]float64{sample.RTT: {value + 0.01*float64(block%3)}}})
			}
		}
		choices := described(t, in).Choices
		if len(choices) != 2*(1+others) || choices[0].What != "veth instead of bridge" || choices[0].Verdict != want || choices[0].Gain < 1.4 || choices[0].P != 2./128 {
			t.Errorf("beside %d others: %+v, want %s", others, choices, want)
		}
	}
}

// The noise of either level's table refuses a choice between the two.
func TestChoiceIsRefusedByEitherTable(t *testing.T) {
	for _, noisy := range []string{"tcp+n2", "tcp+paired"} {
		in := networkRun(0, 0.001, 8)
		for i := range in.Cells {
			if c := &in.Cells[i]; c.Environment == "n50" {
				c.Group, c.Environment, c.Limits.Network = "tcp+paired", "paired", &study.Network{Containers: 2, Pin: "same"}
			}
		}
		tables := analysis.Analyze(in).Tables
		for _, table := range tables {
			for _, r := range table.Rows {
				if table.Group == noisy && r.Effect != nil {
					r.Effect.Verdict = analysis.NotComparable
				}
			}
		}
		for _, c := range (reader{in.WithDefaults(), tables}).choices() {
			if c.What == "paired instead of n2" && c.Verdict != analysis.NotComparable {
				t.Errorf("%s is noisy: %+v", noisy, c)
			}
		}
	}
}

// A choice between levels names the command that makes it.
func TestChoiceNamesItsCommand(t *testing.T) {
	got := settingOf(study.Network{Pin: "apart", MTU: 9000, Offload: "on"}, study.Network{Pin: "apart"})
	if want := "ip link set dev vethX mtu 9000; ethtool -K vethX gro on"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Splitting adds a hop's difference for each further container, and on two hosts
// the tunnel's once.
func TestSplits(t *testing.T) {
	rtt := sample.Metric{Name: "rtt", Unit: sample.Seconds, Better: sample.Lower}
	in := analysis.Input{Metrics: map[string][]sample.Metric{"rtt": {rtt}}, Blocks: 20, Seed: 7}
	level := study.Environment{Name: "apart", Network: &study.Network{}}
	times := map[string]float64{"host@loopback": 9e-6, "native@loopback": 10e-6, "native@bridge": 16e-6, "native@vxlan": 30e-6}
	for _, target := range []string{"host@loopback", "native@loopback", "native@bridge", "native@vxlan"} {
		in.Cells = append(in.Cells, study.Cell{ID: target, Target: target, Workload: "rtt", Group: "rtt", Environment: "apart", Limits: level, Copies: 1, Control: target == "host@loopback"})
	}
	in.Data = analysis.NewData(in.Cells, 0)
	rng := rand.New(rand.NewPCG(3, 4))
	for block := range in.Blocks {
		slow := 1 + 0.01*rng.NormFloat64()
		for _, c := range in.Cells {
			in.Data.Add(&sample.Record{Block: block, Cell: c.ID, Values: map[string][]float64{"rtt": {times[c.Target] * slow}}})
		}
	}
	splits := described(t, in).Splits
	if len(splits) != 1 || len(splits[0].Places) != 2 || splits[0].Blocks != 20 {
		t.Fatalf("%+v", splits)
	}
	for i, want := range []float64{6e-6 * 4, 6e-6*3 + 20e-6} { // k = 5
		p := splits[0].Places[i].Points[2]
		if p.K != 5 || math.Abs(p.Added/want-1) > 0.02 || p.Interval.Low > want || p.Interval.High < want {
			t.Errorf("%s: %+v, want %g", splits[0].Places[i].Place, p, want)
		}
	}
}

// TestAttaching sees what attaching and detaching take, each from its own moments, what
// stood on the network, and no advice to attach instead.
func TestAttaching(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	in := analysis.Input{Metrics: map[string][]sample.Metric{"start": {{Name: sample.Ready, Unit: sample.Seconds, Better: sample.Lower}}}, Blocks: 12, Seed: 7}
	for _, target := range []string{"host@loopback", "native@bridge", "native@attach"} {
		in.Cells = append(in.Cells, study.Cell{ID: target + "/start", Target: target, Workload: "start", Group: "start", Environment: "n500",
			Limits: study.Environment{Name: "n500", Network: &study.Network{Containers: 500, Neighbours: "permanent"}}, Copies: 1, Control: target == "host@loopback"})
	}
	in.Data = analysis.NewData(in.Cells, 0)
	for block := range in.Blocks {
		machine := 0.001 * rng.Float64() // the same for all of a block
		for _, c := range in.Cells {
			value := map[string]float64{"host@loopback": 0.0005, "native@bridge": 0.002, "native@attach": 0.005}[c.Target]
			values := map[string][]float64{sample.Ready: {value + machine + 1e-5*rng.Float64()}}
			if c.Target == "native@attach" {
				detach := 0.001 + 1e-5*rng.Float64()
				values[sample.Detached], values[sample.Attached] = []float64{detach}, []float64{detach + 0.003}
				values[sample.OnNetwork], values[sample.NFTRules] = []float64{500}, []float64{7}
			}
			in.Data.Add(&sample.Record{Block: block, Cell: c.ID, Values: values})
		}
	}
	n := described(t, in)
	if len(n.Attaching) != 1 || len(n.Choices) != 0 || len(n.Around) != 1 {
		t.Fatalf("%+v, %+v, %+v", n.Attaching, n.Choices, n.Around)
	}
	a := n.Attaching[0]
	if a.Target != "native" || a.Containers != 500 || math.Abs(a.Attach.Seconds-0.003) > 1e-9 || math.Abs(a.Detach.Seconds-0.001) > 1e-5 || a.Detach.Interval.Low < 0.001 {
		t.Errorf("%+v", a)
	}
	if x := n.Around[0]; x.Target != "native@attach" || x.Containers != 500 || x.NFTRules != 7 || x.Proxies != 0 {
		t.Errorf("%+v", x)
	}
}
