// Package leanimage is the experiment of the image: whether the same programs are faster in
// a slim one than on a full root file system.
package leanimage

import (
	_ "embed" // the study

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/finding"
)

const name = "lean-image"

//go:embed study.yaml
var studyFile []byte

// Experiment is the experiment, for the list of all.
func Experiment() experiment.Experiment {
	return experiment.Experiment{Name: name, Study: studyFile, Sections: sections}
}

func sections(run experiment.Run) ([]finding.Section, error) {
	m := run.Manifest()
	d := describe(run.Input, run.Claims.Tables, m.Study.Environments, m.Images)
	if len(d.Images)+len(d.Caches) == 0 {
		return nil, nil
	}
	return []finding.Section{section(d)}, nil
}
