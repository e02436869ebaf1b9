package containerload

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/published"
)

// readings are of one container, a second apart; the first of each is unknown.
func readings(n int, cpu func(i int) float64) []usage {
	all := make([]usage, n)
	for i := range all {
		all[i] = usage{At: float64(i + 1), CPU: cpu(i), Memory: 1e6, Load: 1, Read: -1, Written: 2e6, Received: 10, Sent: 20}
	}
	all[0].CPU = -1
	return all
}

// Means and peaks leave unknown readings out, and are medians over the trials; a
// number that nobody knows stays unknown; long curves are thinned to their means.
func TestSeries(t *testing.T) {
	d, err := published.Read(name, publishedFile, new(source))
	if err != nil {
		t.Fatal(err)
	}
	var trials []trial
	for _, cpu := range []float64{0.1, 0.3, 0.2} {
		points := readings(601, func(i int) float64 {
			if i == 300 {
				return 3 * cpu
			}
			return cpu
		})
		trials = append(trials, trial{Target: "host", Containers: []watched{reduced("a", "package", points)}})
	}
	c := describe(trials, d)
	if len(c.Peaks) != 1 || len(c.Curves) != 1 {
		t.Fatalf("%d containers, %d curves", len(c.Peaks), len(c.Curves))
	}
	p := c.Peaks[0]
	if p.Trials != 3 || math.Abs(p.Peak.CPU-0.6) > 1e-9 || math.Abs(p.Mean.CPU-0.2*602/600) > 1e-9 || p.Peak.Read != -1 || p.Peak.Written != 2e6 {
		t.Errorf("peaks %+v", p)
	}
	curve := c.Curves[0].Points // of the last trial: 0.2
	if len(curve) > 150 || len(curve) < 100 || math.Abs(curve[10].CPU-0.2) > 1e-9 || curve[10].Read != -1 {
		t.Errorf("%d points, the eleventh %+v", len(curve), curve[10])
	}
	if c.Shown.PackageCPU != 0.1 || c.Shown.LateCPU != 0.02 || c.Shown.Read != 1.5e6 || c.Shown.Written != 3e6 {
		t.Errorf("published %+v", c.Shown)
	}
}

// Of a hundred containers the busiest are drawn, and all are in the table.
func TestSeriesOfMany(t *testing.T) {
	var w trial
	for i := range 100 {
		w.Containers = append(w.Containers, reduced(string(rune('0'+i)), "", readings(5, func(int) float64 { return float64(i) / 100 })))
	}
	c := describe([]trial{w}, nil)
	if len(c.Peaks) != 100 || len(c.Curves) != 6 || c.Curves[0].Points[1].CPU != 0.94 || c.Shown != nil {
		t.Errorf("%d containers, %d curves, the first of %v CPUs", len(c.Peaks), len(c.Curves), c.Curves[0].Points[1].CPU)
	}
}

// Of a trial's readings means, peaks and the last trial's curve are kept, whatever the
// order of their times.
func TestReadingsAreReduced(t *testing.T) {
	backwards := readings(5000, func(int) float64 { return 1 })
	slices.Reverse(backwards)
	if n := len(reduced("a", "", backwards).Points); n > mostPoints {
		t.Errorf("a curve has %d points", n)
	}
	dirs, err := filepath.Glob("testdata/runs/*-container-load")
	if err != nil || len(dirs) != 1 {
		t.Fatal(dirs, err)
	}
	run, err := store.Open(dirs[0])
	if err != nil {
		t.Fatal(err)
	}
	trials, err := trialsOf(experiment.Run{Run: run})
	if err != nil || len(trials) != 2 {
		t.Fatal(len(trials), err)
	}
	for i, of := range trials {
		for _, c := range of.Containers {
			if drawn := i == len(trials)-1; (len(c.Points) > 0) != drawn || c.Peak.CPU <= 0 {
				t.Errorf("trial %d: %s keeps %d points, and the peak %+v", i, c.Name, len(c.Points), c.Peak)
			}
		}
	}
}
