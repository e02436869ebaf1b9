// Package schedule says WHEN each cell is measured: it puts cells and blocks
// into a seeded random order. It is pure: the same seed gives the same order on
// every machine, so that a broken run resumes with the plan it began with.
package schedule

import (
	"math/rand/v2"

	"github.com/tarelab/tare/internal/study"
)

// Cold is the block of the trials that precede the blocks: one of each cell,
// reported apart, because it pays for caches that later trials find filled.
const Cold = -1

// Trial is one place in the plan.
type Trial struct {
	Seq   int // position in the plan, from 0: the trial's identity
	Block int // 0..blocks-1, or Cold
	Cell  int // index into the cells
}

// Plan orders the trials: first a cold trial of every cell, then the blocks.
// Each block holds every cell once (one that has fewer blocks than the others is
// in the first ones; one of several runs has a trial in each of as many passes
// through the block, evenly spread), in an order of its own, drawn uniformly:
// whatever drifts on the machine then meets all cells alike (a randomized
// complete block design). Cells of different groups interleave. Cells of one set,
// which are measured together in rounds, stand together, and have no cold trial:
// each block warms them up.
func Plan(cells []study.Cell, blocks int, seed uint64) []Trial {
	return PlanFrom(Cold, cells, blocks, seed)
}

// PlanFrom is Plan beginning with block first: Cold, or 0 for a plan without
// cold trials.
func PlanFrom(first int, cells []study.Cell, blocks int, seed uint64) []Trial {
	random := source(seed)
	units := unitsOf(cells)
	plan := make([]Trial, 0, len(cells)*(blocks+1))
	for block := first; block < blocks; block++ {
		all := passes(cells, block)
		for pass := range all {
			for _, unit := range order(random, len(units)) {
				for _, cell := range units[unit] {
					if held(cells[cell], block, pass, all) {
						plan = append(plan, Trial{Seq: len(plan), Block: block, Cell: cell})
					}
				}
			}
		}
	}
	return plan
}

// passes is how many times a block goes through the cells.
func passes(cells []study.Cell, block int) int {
	most := 1
	for _, c := range cells {
		if block != Cold {
			most = max(most, c.Runs)
		}
	}
	return most
}

// held says whether a pass through a block has a trial of the cell. The trials of a cell
// are spread evenly over the passes.
func held(c study.Cell, block, pass, passes int) bool {
	switch {
	case c.Blocks > 0 && block >= c.Blocks: // it is only in the first blocks
		return false
	case block == Cold:
		return c.Set == ""
	}
	until := func(pass int) int { return (pass*max(1, c.Runs) + passes/2) / passes }
	return until(pass+1) > until(pass)
}

// unitsOf are what a block orders: a set of cells, or a cell by itself.
func unitsOf(cells []study.Cell) [][]int {
	var units [][]int
	sets := map[string]int{}
	for i, c := range cells {
		at, known := sets[c.Set]
		if c.Set != "" && known {
			units[at] = append(units[at], i)
			continue
		}
		sets[c.Set] = len(units)
		units = append(units, []int{i})
	}
	return units
}

// Visit is one slice: of a workload, on one of the targets that have it.
type Visit struct{ Workload, Target int }

// Slices is a workload of a block: in how many rounds each of its targets takes a slice.
type Slices []int

// Rounds is the order of slices in a block, which has as many rounds as the workload with
// the most. A workload takes part in as many of them as the target with the most has, evenly
// spread and in the first; a target in as many of its workload's, in the same way. A round
// visits its workloads in random order, and one after another all targets of each in random
// order, so that the slices that are compared are neighbours.
func Rounds(workloads []Slices, seed uint64) [][]Visit {
	most := 0
	for _, w := range workloads {
		most = max(most, w.rounds())
	}
	random := source(seed)
	visited := make([]int, len(workloads)) // in how many rounds
	plan := make([][]Visit, most)
	for i := range plan {
		var here []int
		for at, w := range workloads {
			if spread(i, w.rounds(), most) {
				here = append(here, at)
			}
		}
		for _, at := range order(random, len(here)) {
			w := here[at]
			for _, t := range order(random, len(workloads[w])) {
				if spread(visited[w], workloads[w][t], workloads[w].rounds()) {
					plan[i] = append(plan[i], Visit{w, t})
				}
			}
			visited[w]++
		}
	}
	return plan
}

func (s Slices) rounds() (most int) {
	for _, n := range s {
		most = max(most, n)
	}
	return most
}

// spread says whether the i-th of all places is one of n that are evenly spread over them.
func spread(i, n, all int) bool { return i*n%all < n }

// Order is a random order of 0..n-1, of a seed.
func Order(n int, seed uint64) []int { return order(source(seed), n) }

// source gives the random numbers of a seed. PCG's stream is part of Go's
// compatibility promise; the second word is its golden-ratio increment, so that
// seed 0 is as good as any.
func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)) }

// order draws a permutation of 0..n-1 (Fisher and Yates, as in Durstenfeld
// 1964). It is written out because the promise of Go's library covers the
// generator's stream, not what Shuffle makes of it, and a resumed run needs
// the same order from another build.
func order(random *rand.Rand, n int) []int {
	p := make([]int, n)
	for i := range p {
		j := int(below(random, uint64(i+1)))
		p[i] = p[j]
		p[j] = i
	}
	return p
}

// below draws uniformly from 0..n-1, n > 0: values from the incomplete last
// stretch of the generator's range are drawn again, so that none is favoured.
func below(random *rand.Rand, n uint64) uint64 {
	skip := -n % n // 2^64 mod n
	for {
		if v := random.Uint64(); v >= skip {
			return v % n
		}
	}
}
