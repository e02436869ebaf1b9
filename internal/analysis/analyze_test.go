package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

var wall = sample.Metric{Name: "wall", Unit: sample.Seconds, Better: sample.Lower}

// noiseKind makes the factor by which noise changes a trial. block is common to
// the cells of a block, own is the cell's own.
type noiseKind struct {
	name  string
	block func(r *rand.Rand, at float64) float64
	own   func(r *rand.Rand) float64
}

func lognormal(sd float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return math.Exp(sd * r.NormFloat64()) }
}

func steady(*rand.Rand, float64) float64 { return 1 }

var noiseKinds4 = []noiseKind{
	{"lognormal", steady, lognormal(0.02)},
	{"heavy-tailed", steady, func(r *rand.Rand) float64 {
		f := math.Exp(0.01 * r.NormFloat64())
		if r.Float64() < 0.1 {
			f *= 1 + r.ExpFloat64() // one trial in ten meets a disturbance
		}
		return f
	}},
	{"drifting", func(_ *rand.Rand, at float64) float64 { return 1 + 0.15*at }, lognormal(0.02)},
	{"bimodal", steady, func(r *rand.Rand) float64 {
		return math.Exp(0.01*r.NormFloat64()) * []float64{1, 1.06}[r.IntN(2)]
	}},
}

// simulated makes a run of host, its twin and the named targets, each with its
// factor over the host.
func simulated(seed uint64, blocks int, noise noiseKind, targets map[string]float64) Input {
	r := rand.New(rand.NewPCG(seed, 1))
	cells := []study.Cell{
		{ID: "host/w", Target: "host", Workload: "w", Group: "w", Control: true, Copies: 1},
		{ID: "host~aa/w", Target: "host", Workload: "w", Group: "w", AA: true, Copies: 1},
	}
	for _, name := range []string{"native", "runc", "crun", "runsc"} {
		if _, ok := targets[name]; ok {
			cells = append(cells, study.Cell{ID: name + "/w", Target: name, Workload: "w", Group: "w", Copies: 1})
		}
	}
	data := NewData(cells, blocks*len(cells))
	for b := range blocks {
		common := 0.010 * noise.block(r, float64(b)/float64(blocks))
		for _, c := range cells {
			factor := 1.0
			if f, ok := targets[c.Target]; ok {
				factor = f
			}
			data.Add(&sample.Record{Block: b, Cell: c.ID, Values: map[string][]float64{"wall": {common * factor * noise.own(r)}}})
		}
	}
	return Input{
		Cells: cells, Metrics: map[string][]sample.Metric{"w": {wall}}, Data: data,
		Blocks: blocks, Planned: blocks * len(cells), Seed: seed,
	}
}

func rowOf(t *testing.T, c Claims, label string) Row {
	t.Helper()
	for _, row := range c.Tables[0].Rows {
		if row.Label == label {
			return row
		}
	}
	t.Fatalf("no row %q in %+v", label, c.Tables[0].Rows)
	return Row{}
}

// Noise alone gives "differs" in at most 5 of 100 runs, whatever its shape.
func TestAARunsRarelyDiffer(t *testing.T) {
	for _, noise := range noiseKinds4 {
		for _, blocks := range []int{7, 12, 30} {
			t.Run(fmt.Sprintf("%s/%d", noise.name, blocks), func(t *testing.T) {
				count := map[Verdict]int{}
				for seed := range uint64(100) {
					claims := Analyze(simulated(seed, blocks, noise, map[string]float64{"native": 1}))
					count[rowOf(t, claims, "host (A/A)").Effect.Verdict]++
					count[rowOf(t, claims, "native").Effect.Verdict]++
				}
				t.Log(count)
				if count[Differs] > 10 {
					t.Errorf("%d of 200 comparisons of equal arms differ, at most 10 may", count[Differs])
				}
			})
		}
	}
}
