package analysis

import (
	"fmt"
	"math"

	"github.com/tarelab/tare/internal/stats"
)

// PlanBlocks is the number of blocks that suffices for a verdict in a table of
// m compared cells: the smallest p-value of n blocks, 2^(1-n), must reach
// alpha/m, which Holm asks of the smallest of m. Never below MinimumBlocks.
func PlanBlocks(alpha float64, m int) int {
	n := stats.MinimumBlocks
	for math.Pow(2, float64(1-n)) > alpha/float64(max(1, m)) {
		n++
	}
	return n
}

// TooFewBlocks is the error of a plan that cannot promise a verdict.
type TooFewBlocks struct {
	Blocks int     // planned
	Need   int     // that suffice
	Cells  int     // compared in one table
	Alpha  float64 // of the table
}

// Error says what is missing and what to do.
func (e *TooFewBlocks) Error() string {
	cells := "cells"
	if e.Cells == 1 {
		cells = "cell"
	}
	return fmt.Sprintf("%d blocks cannot give a verdict on %d compared %s at alpha %g: the smallest p-value that they allow is %.2g; use %d blocks",
		e.Blocks, e.Cells, cells, e.Alpha, math.Pow(2, float64(1-e.Blocks)), e.Need)
}

// CheckPlan returns a *TooFewBlocks error when a plan of so many blocks cannot
// promise a verdict on m compared cells of one table.
func CheckPlan(blocks int, alpha float64, m int) error {
	if need := PlanBlocks(alpha, m); blocks < need {
		return &TooFewBlocks{Blocks: blocks, Need: need, Cells: m, Alpha: alpha}
	}
	return nil
}
