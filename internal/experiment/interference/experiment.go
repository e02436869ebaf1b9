// Package interference is the experiment of noisy neighbours: what a container loses next
// to others that work, and which knob gives it back.
package interference

import (
	_ "embed" // the study

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/finding"
)

const name = "interference"

//go:embed study.yaml
var studyFile []byte

// Experiment is the experiment, for the list of all.
func Experiment() experiment.Experiment {
	return experiment.Experiment{Name: name, Study: studyFile, Sections: sections}
}

func sections(run experiment.Run) ([]finding.Section, error) {
	d := describe(run.Input, run.Claims.Tables, run.Manifest().Study.Environments)
	if len(d.Losses) == 0 {
		return nil, nil
	}
	d.Scheduler = run.Manifest().Host.SchedExt
	return []finding.Section{section(d)}, nil
}
