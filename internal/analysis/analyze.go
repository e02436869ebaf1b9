package analysis

import (
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

// Input is one run, as Analyze and Compare take it.
type Input struct {
	Cells   []study.Cell
	Metrics map[string][]sample.Metric // by workload name, in the order of display
	Data    *Data
	Alpha   float64 // family-wise error of a table; 0 means 0.05
	Margin  float64 // of equivalence, as a fraction; 0 means 0.02
	Blocks  int     // of the plan
	Planned int     // trials of the plan
	View    study.View
	Seed    uint64 // of the resampling; the same seed gives the same claims
	// Primary names, by workload, the metric that the price list shows; without
	// an entry it is the first of Metrics that has numbers.
	Primary map[string]string
}
