package concurrentstart

import (
	"testing"

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/experiment/experimenttest"
)

// The recorded run is of six blocks, up to nine containers, with a watched cell; of its
// tables seven metrics are kept.
func TestReports(t *testing.T) {
	experimenttest.Reports(t, experiment.List{Experiment()})
}
