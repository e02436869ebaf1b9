package kernelwaits

import (
	"testing"

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/experiment/experimenttest"
)

// The recorded runs are of two blocks: churn of cgroups by one task and by four, and
// two arms of the interventions, of whose 400 starts a trial 100 are kept.
func TestReports(t *testing.T) {
	experimenttest.Reports(t, experiment.List{Experiment()})
}
