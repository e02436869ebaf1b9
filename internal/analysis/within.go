package analysis

import (
	"math"
	"slices"

	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// against is a cell's series as it is compared with its control: one value a block, which
// stands to the control's value of the block as the cell stood to the control within it. Of
// cells that were measured in rounds that is by the ratios of the slices of each round: the
// noise of a machine lasts longer than a slice, so it is in both and cancels. Of cells with
// several trials in a block it is by the ratios of all their pairs, which scatter less than
// the ratio of two medians. Others' series stay as they are.
func (c *column) against(control *column, metric string) Series {
	both := pairing(metric, c, control)
	if c == control || both == nil {
		return c.series(metric)
	}
	out, _ := within(control.series(metric), nil, both)
	return out
}

// beside is against for a cell and for the control's twin, nil for none. The twin's series
// is the cell's own: what a block's three values stand to is common to them.
//
// A cell with far fewer trials a block than the control has no twin's series: its values
// scatter more than the other two, and could not change places with them. It is compared
// with the trials of the control and the twin together.
func (c *column) beside(control, twin *column, metric string) (cell, second Series) {
	all := pairing(metric, c, control, twin)
	fewer := !c.inRounds(metric) && c.trialsPerBlock(metric) < fewerShare*control.trialsPerBlock(metric)
	switch {
	case all == nil && fewer:
		return c.against(control, metric), Series{}
	case all == nil:
		return c.against(control, metric), twin.against(control, metric)
	case fewer:
		cell, _ = within(control.series(metric), nil, func(block int32) paired {
			p := all(block)
			return paired{[][]float64{p.cells[0], slices.Concat(p.cells[1], p.cells[2])}, p.whole}
		})
		return cell, Series{}
	}
	return within(control.series(metric), all, pairing(metric, c, control))
}

// fewerShare of the control's trials is so few that a block's value scatters far more than
// the control's.
const fewerShare = 2.0 / 3

func (c *column) trialsPerBlock(metric string) float64 {
	if c.arrived(metric).regular() {
		return 1
	}
	return float64(len(c.each(metric))) / float64(max(1, len(c.series(metric).blocks)))
}

// within are the series of a cell and of the control's twin, on the scale of the control's
// blocks: by all three in the blocks that have them, else by the cell and the control. all
// is nil where there is no twin.
func within(base Series, all, both func(block int32) paired) (cell, second Series) {
	for i, block := range base.blocks {
		if base.values[i] <= 0 {
			continue
		}
		scale := func(x float64) float64 { return base.values[i] * math.Exp(x) }
		if all != nil {
			if x := stands(all(block)); x != nil {
				cell.blocks, cell.values = append(cell.blocks, block), append(cell.values, scale(x[0]-x[1]))
				second.blocks, second.values = append(second.blocks, block), append(second.values, scale(x[2]-x[1]))
				continue
			}
		}
		if x := stands(both(block)); x != nil {
			cell.blocks, cell.values = append(cell.blocks, block), append(cell.values, scale(x[0]-x[1]))
		}
	}
	return cell, second
}

// paired are the logarithms of what some cells did in a block.
type paired struct {
	cells [][]float64
	// whole says that each of a cell's is set against each of another's; else they are of the
	// same rounds, and set against each other by their place.
	whole bool
}

// pairing is how some cells are compared within a block; nil where they are compared by one
// value of each.
func pairing(metric string, cells ...*column) func(block int32) paired {
	switch {
	case slices.Contains(cells, nil):
		return nil
	case !slices.ContainsFunc(cells, func(c *column) bool { return !c.inRounds(metric) }):
		return func(block int32) paired {
			rounds := make([][]float64, len(cells))
			for i, c := range cells {
				rounds[i] = c.slicesOf(block, metric)
			}
			return paired{inCommon(rounds), false}
		}
	}
	if !slices.ContainsFunc(cells, func(c *column) bool { return !c.arrived(metric).regular() }) {
		return nil // one trial a block
	}
	trials := make([]map[int32][]float64, len(cells))
	for i, c := range cells {
		if trials[i] = c.logsOf(metric); trials[i] == nil {
			return nil
		}
	}
	return func(block int32) paired {
		of := make([][]float64, len(cells))
		for i := range cells {
			of[i] = trials[i][block]
		}
		return paired{of, true}
	}
}

// logsOf are the logarithms of a metric, by block, of which study.MaxRuns of each are kept;
// nil where a value has none.
func (c *column) logsOf(metric string) map[int32][]float64 {
	all := map[int32][]float64{}
	trials := c.arrived(metric)
	for i, v := range trials.values {
		switch block := trials.blocks[i]; {
		case v <= 0:
			return nil
		case len(all[block]) < study.MaxRuns:
			all[block] = append(all[block], math.Log(v))
		}
	}
	return all
}

// inCommon are the logarithms of the rounds that all cells have.
func inCommon(cells [][]float64) [][]float64 {
	logs := make([][]float64, len(cells))
	for round := range len(cells[0]) {
		if slices.ContainsFunc(cells, func(c []float64) bool { return round >= len(c) || !(c[round] > 0) }) {
			continue
		}
		for i, c := range cells {
			logs[i] = append(logs[i], math.Log(c[round]))
		}
	}
	return logs
}

// stands is how the cells stood in a block: of each the mean, over all of them, of the
// median log-ratio to it; nil where one did nothing. Of two cells the difference is the
// median of their log-ratios. Without an effect the numbers can change places, however many
// the cells are, as the test of their blocks supposes. Medians of ratios to one of three cells
// cannot: the ratio of the other two has another median (TestRoundsCover has what that costs).
func stands(p paired) []float64 {
	if slices.ContainsFunc(p.cells, func(c []float64) bool { return len(c) == 0 }) {
		return nil
	}
	out := make([]float64, len(p.cells))
	for i, a := range p.cells {
		for j, b := range p.cells[:i] {
			median := stats.Median(stats.Sorted(p.differences(a, b))) / float64(len(out))
			out[i], out[j] = out[i]+median, out[j]-median
		}
	}
	return out
}

func (p paired) differences(a, b []float64) []float64 {
	var all []float64
	for i, x := range a {
		if !p.whole {
			all = append(all, x-b[i])
			continue
		}
		for _, y := range b {
			all = append(all, x-y)
		}
	}
	return all
}
