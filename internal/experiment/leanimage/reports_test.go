package leanimage

import (
	"testing"

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/experiment/experimenttest"
)

// The recorded run is of two blocks on host and native.
func TestReports(t *testing.T) {
	experimenttest.Reports(t, experiment.List{Experiment()})
}
