// Package twomachines is the experiment of placement: what a call costs when its server
// is in another container or on another machine, and how much work a service has to do
// for each call before it can be split there.
package twomachines

import (
	_ "embed" // the study

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/finding"
)

const name = "two-machines"

//go:embed study.yaml
var studyFile []byte

// Experiment is the experiment, for the list of all.
func Experiment() experiment.Experiment {
	return experiment.Experiment{Name: name, Study: studyFile, Sections: sections}
}

func sections(run experiment.Run) ([]finding.Section, error) {
	splits, refused := describe(run.Input, run.Claims.Tables)
	if len(splits) == 0 {
		return nil, nil
	}
	return []finding.Section{section(splits, refused)}, nil
}
