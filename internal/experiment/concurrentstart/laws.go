package concurrentstart

import (
	"math"
	"slices"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// levelsOf are a metric's values over what at gives, for the laws.
func levelsOf(points []point, metric string, at func(point) int) []stats.Level {
	var levels []stats.Level
	for _, p := range points {
		if l := p.blocks[metric]; len(l.Values) > 0 {
			l.N = float64(at(p))
			levels = append(levels, l)
		}
	}
	return levels
}

func instancesOf(p point) int { return p.N }

// groupsCPU is the CPU time of the instances' groups and, where there is one, of
// their daemon: what perf's task-clock counts too.
const groupsCPU = "cpu-with-daemon"

// cpuMetric is what stands for the CPU time of all instances: perf's, or the
// cgroups' where there is none.
func cpuMetric(points []point) string {
	for _, p := range points {
		if len(p.blocks[sample.TaskClock].Values) > 0 {
			return sample.TaskClock
		}
	}
	return groupsCPU
}

// lawsOf fits the laws of growth to a curve.
func lawsOf(c curve, seed uint64) curve {
	points := c.Points
	cpu := cpuMetric(points)
	if laws, err := stats.FitLaws(levelsOf(points, sample.Elapsed, instancesOf), seed); err == nil {
		c.Elapsed = &laws
	} else {
		c.NoLaw = err.Error()
	}
	if laws, err := stats.FitLaws(levelsOf(points, cpu, instancesOf), seed); err == nil {
		c.CPU = &laws
	}
	c.ElapsedExponent = lastExponent(levelsOf(points, sample.Elapsed, instancesOf), seed)
	c.CPUExponent = lastExponent(levelsOf(points, cpu, instancesOf), seed)
	return c
}

// lastExponent is b of cost ~ n^b between the two largest levels, with its
// interval from a bootstrap over blocks or, where there are too few for that, the
// range of the blocks' own exponents.
func lastExponent(levels []stats.Level, seed uint64) *stats.Estimate {
	levels = slices.DeleteFunc(levels, func(l stats.Level) bool { return l.N < 2 || slices.Min(l.Values) <= 0 })
	if len(levels) < 2 {
		return nil
	}
	a, b := levels[len(levels)-2], levels[len(levels)-1]
	values := [][]float64{a.Values, b.Values}
	exponent := func(m []float64) float64 { return math.Log(m[1]/m[0]) / math.Log(b.N/a.N) }
	e := stats.Exact(exponent(stats.Medians(values)))
	var draws []float64
	fewest, _ := stats.FewestAndMost(values)
	if fewest < stats.MinimumBlocks {
		analysis.NewSeries(a.Blocks, a.Values).Pairs(analysis.NewSeries(b.Blocks, b.Values), func(_ int, x, y float64) {
			draws = append(draws, exponent([]float64{x, y}))
		})
		e.Interval = stats.RangeOf(stats.Sorted(draws))
	} else {
		stats.LevelMedians(values, stats.SameBlocks(levels[len(levels)-2:]), stats.Source(seed, "exponent"), func(m []float64) { draws = append(draws, exponent(m)) })
		e.Interval = stats.OfReplicates(draws, fewest)
	}
	return &e
}

func scalingOf(name string, g []study.Cell, all map[string]*point, seed uint64) scaling {
	c, points := g[0], pointsOf(g, all)
	s := scaling{Name: name, Workload: c.Workload, Target: c.Target, Environment: c.Environment, N: c.Copies, Refused: refusedAmong(points), Points: points}
	reached := slices.DeleteFunc(slices.Clone(points), func(p point) bool { return p.Concurrency > p.N }) // so many were never under way
	fit, err := stats.FitUSL(levelsOf(reached, sample.StartsPerSecond, func(p point) int { return p.Concurrency }), seed)
	if err != nil {
		s.NoLaw = err.Error()
		return s
	}
	s.USL = &fit
	return s
}
