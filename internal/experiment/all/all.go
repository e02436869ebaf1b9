// Package all is the explicit list of experiments: the only place that names them.
package all

import (
	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/experiment/bridgenetwork"
	"github.com/tarelab/tare/internal/experiment/concurrentstart"
	"github.com/tarelab/tare/internal/experiment/containerload"
	"github.com/tarelab/tare/internal/experiment/containervmtrim"
	"github.com/tarelab/tare/internal/experiment/cores"
	"github.com/tarelab/tare/internal/experiment/interference"
	"github.com/tarelab/tare/internal/experiment/kernelhistory"
	"github.com/tarelab/tare/internal/experiment/kernelwaits"
	"github.com/tarelab/tare/internal/experiment/leanimage"
	"github.com/tarelab/tare/internal/experiment/twomachines"
	"github.com/tarelab/tare/internal/experiment/unixbench"
	"github.com/tarelab/tare/internal/experiment/vmmcompare"
	"github.com/tarelab/tare/internal/experiment/vmmdevices"
)

// Experiments are those that this build of tare has, one line each, in the order of
// their sections in a report.
func Experiments() experiment.List {
	return experiment.List{
		unixbench.Experiment(),
		concurrentstart.Experiment(),
		containervmtrim.Experiment(),
		bridgenetwork.Experiment(),
		vmmcompare.Experiment(),
		vmmdevices.Experiment(),
		containerload.Experiment(),
		kernelwaits.Experiment(),
		kernelhistory.Experiment(),
		cores.Experiment(),
		interference.Experiment(),
		leanimage.Experiment(),
		twomachines.Experiment(),
	}
}
