package unixbench

import (
	"testing"

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/experiment/experimenttest"
)

// The recorded runs are of two tests on a busy machine: two blocks on one CPU, on the
// host and in one and two containers of runc, and tare index with three passes. Of
// the metrics that their manifests list, those of the scores are kept.
func TestReports(t *testing.T) {
	experimenttest.Reports(t, experiment.List{Experiment()})
}
