// Package cores is the experiment of more CPUs: how work grows with them, what is lost to
// waiting and to keeping caches coherent, and why system calls fall.
package cores

import (
	_ "embed" // the study

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/finding"
)

const name = "cores"

//go:embed study.yaml
var studyFile []byte

// Experiment is the experiment, for the list of all.
func Experiment() experiment.Experiment {
	return experiment.Experiment{Name: name, Study: studyFile, Sections: sections}
}

func sections(run experiment.Run) ([]finding.Section, error) {
	m := run.Manifest()
	d := describe(run.Input, run.Claims.Tables, m.Study.Environments, m.CPUs)
	if len(d.Curves) == 0 {
		return nil, nil
	}
	return []finding.Section{section(d)}, nil
}
