package analysis

import (
	"fmt"

	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/stats"
)

// PlanBlocks is the number of blocks that give an interval, and so may give a
// verdict, to each of m compared cells of a table at a family-wise alpha. A twin of
// the control makes fewer blocks do. Never below stats.MinimumBlocks.
func PlanBlocks(alpha float64, m int, twin bool) int {
	return stats.BlocksFor(1-alpha/float64(max(1, m)), twin)
}

// TooFewBlocks is the error of a plan that cannot give a verdict.
type TooFewBlocks struct {
	Blocks int     // planned
	Need   int     // that suffice
	Cells  int     // compared in one table
	Alpha  float64 // of the table
}

// Error says what is missing and what to do.
func (e *TooFewBlocks) Error() string {
	return fmt.Sprintf("%s cannot give a verdict on %s at alpha %g: use %d blocks", quantity.Count(e.Blocks, "block"), judgedCells(e.Cells), e.Alpha, e.Need)
}

// CheckPlan returns a *TooFewBlocks error when a plan of so many blocks cannot give
// a verdict on m compared cells of one table.
func CheckPlan(blocks int, alpha float64, m int, twin bool) error {
	if need := PlanBlocks(alpha, m, twin); blocks < need {
		return &TooFewBlocks{Blocks: blocks, Need: need, Cells: m, Alpha: alpha}
	}
	return nil
}
