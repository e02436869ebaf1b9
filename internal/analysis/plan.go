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

// CheckPlan returns an error when the blocks are too few for a verdict on m compared cells
// of one table. The error says how many blocks suffice.
func CheckPlan(blocks int, alpha float64, m int, twin bool) error {
	if need := PlanBlocks(alpha, m, twin); blocks < need {
		return fmt.Errorf("%s cannot give a verdict on %s at alpha %g: use %d blocks", quantity.Count(blocks, "block"), judgedCells(m), alpha, need)
	}
	return nil
}
