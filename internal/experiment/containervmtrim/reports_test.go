package containervmtrim

import (
	"testing"

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/experiment/experimenttest"
)

// The run has made-up times, and the console that bootlog's tests have; of its first
// target a boot told of an initcall and its modules.
func TestReports(t *testing.T) {
	experimenttest.Reports(t, experiment.List{Experiment()})
}
