package workload

import "github.com/tarelab/tare/internal/sample"

// Many are the metrics of trials that measure many instances as one, in the
// order of display.
func Many() []sample.Metric {
	return sample.Describe(sample.Elapsed, sample.StartsPerSecond,
		sample.ReadyP50, sample.ReadyP90, sample.ReadyP99, sample.ReadyMax, sample.Removal)
}
