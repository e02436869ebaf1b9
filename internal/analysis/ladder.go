package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/tarelab/tare/internal/stats"
)

// ladderBlocks is how many blocks a resample of a ladder draws at most. From
// larger runs it draws that many (the m out of n bootstrap: Bickel, Götze and
// van Zwet, Statistica Sinica 7, 1997) and the deviations are scaled by
// sqrt(m/n), which keeps the cost of a large run bounded.
const ladderBlocks = 400

// ladderResamples is smaller than resamples, as every one takes a median of
// every level.
const ladderResamples = 2000

// ladder makes the chain of a group's cells, in their order, without the A/A
// twin. Only blocks that hold every level count, so that the steps sum to the
// total and one resample of blocks moves all levels together. Levels with less
// than half of the blocks that the fullest one has are left out, so that one
// failing level does not take the others' blocks away; the warnings tell of both.
// The ladder is nil when fewer than two levels or one block remain.
func (in Input) ladder(j job) (*Ladder, []string) {
	l := &Ladder{Group: j.group.name, Metric: j.metric}
	names, levels, warnings := in.levels(j, l)
	values := Complete(levels)
	if len(levels) < 2 || len(values[0]) == 0 {
		return nil, warnings
	}
	l.Base, l.Blocks = names[0], len(values[0])
	if most := fullest(levels); l.Blocks < most {
		warnings = append(warnings, fmt.Sprintf("%s: the ladder rests on the %d of %d blocks that hold every rung", l.Group, l.Blocks, most))
	}
	medians := stats.Medians(values)
	from, beside, last := in.rungs(names)
	source := func() *rand.Rand { return stats.Source(in.Seed, "ladder", l.Group, l.Metric.Name) }
	base := ladderIntervals(values[:1], medians[:1], from[:1], 0, source())[0]
	if in.Data.cells[j.group.cells[0].ID].inRounds(l.Metric.Name) {
		values = onOneBase(values, medians[0])
		medians = stats.Medians(values)
	}
	spans := ladderIntervals(values, medians, from, last, source())
	l.BaseMedian, l.BaseInterval, l.Total = medians[0], base, medians[last]
	l.Rise = stats.Estimate{Value: medians[last] - medians[0], Interval: spans[len(medians)]}
	for i := 1; i < len(medians); i++ {
		l.Steps = append(l.Steps, Step{
			From: names[from[i]], To: names[i], Beside: beside[i],
			Median: medians[i], Delta: medians[i] - medians[from[i]], Interval: spans[i],
		})
	}
	return l, warnings
}

// onOneBase gives the levels of all blocks the same base: of cells in rounds, what
// their slices stand to the base's is known better than how fast a block was.
func onOneBase(values [][]float64, base float64) [][]float64 {
	out := make([][]float64, len(values))
	for i, level := range values {
		out[i] = make([]float64, len(level))
		for block, v := range level {
			out[i][block] = v / values[0][block] * base
		}
	}
	return out
}

// levels are a ladder's rungs, by name, with a warning for each target that has too
// few blocks for one.
func (in Input) levels(j job, l *Ladder) (names []string, levels []Series, warnings []string) {
	var all []Series
	for _, cell := range j.group.cells {
		all = append(all, in.Data.cells[cell.ID].against(in.Data.cells[j.group.cells[0].ID], l.Metric.Name))
	}
	most := fullest(all)
	for i, cell := range j.group.cells {
		switch n := len(all[i].values); {
		case cell.AA:
		case n > 0 && 2*n >= most:
			names, levels = append(names, cell.Target), append(levels, all[i])
		case most > 0:
			l.LeftOut = append(l.LeftOut, cell.Target)
			warnings = append(warnings, fmt.Sprintf("%s: the ladder goes past %s, which gave %d of %d blocks, fewer than half: a step over it holds its cost too",
				l.Group, cell.Target, n, most))
		}
	}
	return names, levels, warnings
}

// fullest is the number of blocks of the series that has the most.
func fullest(levels []Series) int {
	most := 0
	for _, l := range levels {
		most = max(most, len(l.values))
	}
	return most
}

// rungs says of each level from which one its step goes up, and whether it stands
// beside the chain, and which level is the chain's last. The first is the chain's base,
// whatever the study says.
func (in Input) rungs(names []string) (from []int, beside []bool, last int) {
	from, beside = make([]int, len(names)), make([]bool, len(names))
	for i := 1; i < len(names); i++ {
		from[i] = last
		beside[i] = slices.Contains(in.Beside, names[i])
		if !beside[i] {
			last = i
		}
	}
	return from, beside, last
}

// ladderIntervals gives the interval of the first level's median, of each step,
// which goes up from the level that from names, and of the rise from the first
// level to the last of the chain, out of one joint bootstrap over blocks.
func ladderIntervals(values [][]float64, medians []float64, from []int, last int, rng *rand.Rand) []stats.Interval {
	n := len(values[0])
	out := make([]stats.Interval, len(values)+1)
	steps := func(m []float64, i int) float64 {
		switch i {
		case 0:
			return m[0]
		case len(m):
			return m[last] - m[0]
		}
		return m[i] - m[from[i]]
	}
	if n < stats.MinimumBlocks {
		for i := range out {
			out[i] = stats.None(steps(medians, i))
		}
		return out
	}
	draws := make([][]float64, len(out))
	m := min(n, ladderBlocks)
	shrink := math.Sqrt(float64(m) / float64(n))
	stats.JointMedians(values, m, ladderResamples, rng, func(drawn []float64) {
		for i := range draws {
			at := steps(medians, i)
			draws[i] = append(draws[i], at+shrink*(steps(drawn, i)-at))
		}
	})
	for i := range draws {
		slices.Sort(draws[i])
		out[i] = stats.ExpandedInterval(draws[i], n)
	}
	return out
}
