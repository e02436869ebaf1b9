package concurrentstart

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/study"
)

// groups are the cells of each curve and of each scaling, by rising number
// of instances and concurrency.
type groups struct{ curves, scaling, held [][]study.Cell }

// groupsOf finds them in a run: of one workload, target and environment, a
// curve is made of the cells of one concurrency, and a scaling of those of one
// number of instances. A curve takes two numbers, or is all that there is of its
// workload and target; a scaling takes the three concurrencies that its law does,
// or is all that there is.
func groupsOf(in input) (g groups) {
	type key struct{ workload, target, environment string }
	measured := slices.DeleteFunc(slices.Clone(in.Cells), func(c study.Cell) bool { return c.AA || c.Probe != "" })
	for _, grid := range gathered(measured, func(c study.Cell) key { return key{c.Workload, c.Target, c.Environment} }) {
		slices.SortStableFunc(grid, func(a, b study.Cell) int {
			return cmp.Or(cmp.Compare(a.Copies, b.Copies), cmp.Compare(a.Concurrency, b.Concurrency))
		})
		columns := gathered(grid, func(c study.Cell) int { return c.Concurrency })
		if in.Held[grid[0].Workload] {
			g.held = append(g.held, columns...)
			continue
		}
		for _, column := range columns {
			if len(column) > 1 || len(columns) == 1 {
				g.curves = append(g.curves, column)
			}
		}
		rows := gathered(grid, func(c study.Cell) int { return c.Copies })
		for _, row := range rows {
			if narrow(row) > 2 || len(row) > 1 && len(rows) == 1 {
				g.scaling = append(g.scaling, row)
			}
		}
	}
	return g
}

// gathered puts cells of the same key together, in the order of the first ones.
func gathered[K comparable](cells []study.Cell, key func(study.Cell) K) [][]study.Cell {
	var out [][]study.Cell
	at := map[K]int{}
	for _, c := range cells {
		i, seen := at[key(c)]
		if !seen {
			i = len(out)
			at[key(c)], out = i, append(out, nil)
		}
		out[i] = append(out[i], c)
	}
	return out
}

// narrow counts the cells that have as many instances as may be under way at once,
// or more: in the others fewer are.
func narrow(cells []study.Cell) int {
	n := 0
	for _, c := range cells {
		if c.Concurrency <= c.Copies {
			n++
		}
	}
	return n
}

// namesOf name groups of cells by their targets, and by what else tells one
// from another: workloads, environments and what further gives.
func namesOf(groups [][]study.Cell, further ...func(study.Cell) string) []string {
	names, details := make([]string, len(groups)), make([][]string, len(groups))
	for _, part := range append([]func(study.Cell) string{
		func(c study.Cell) string { return c.Workload }, func(c study.Cell) string { return c.Environment },
	}, further...) {
		if !slices.ContainsFunc(groups, func(g []study.Cell) bool { return part(g[0]) != part(groups[0][0]) }) {
			continue
		}
		for i, g := range groups {
			if text := part(g[0]); text != "" {
				details[i] = append(details[i], text)
			}
		}
	}
	for i, g := range groups {
		names[i] = g[0].Target
		if len(details[i]) > 0 {
			names[i] += " (" + strings.Join(details[i], ", ") + ")"
		}
	}
	return names
}

// widthOf says how many of a cell's instances are under way at once.
func widthOf(c study.Cell) string {
	if c.Concurrency == 0 {
		return "all at once"
	}
	return fmt.Sprintf("%d at once", c.Concurrency)
}
