package containerload

import (
	"testing"

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/experiment/experimenttest"
)

// The recorded run is of two trials on the host, 20 s each.
func TestReports(t *testing.T) {
	experimenttest.Reports(t, experiment.List{Experiment()})
}
