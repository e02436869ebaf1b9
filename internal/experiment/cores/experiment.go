// Package cores is the experiment of more CPUs: how work grows with them, what is lost to
// waiting and to keeping caches coherent, and why system calls fall.
package cores

import (
	_ "embed" // the study
	"slices"

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

const name = "cores"

//go:embed study.yaml
var studyFile []byte

// Experiment is the experiment, for the list of all.
func Experiment() experiment.Experiment {
	return experiment.Experiment{Name: name, Study: studyFile, Applies: applies, Sections: sections}
}

// applies: to its own study, and to any that measures some of its workloads at levels of
// CPUs that the others are not measured at.
func applies(m store.Manifest) bool {
	return m.Study.ID == name || slices.ContainsFunc(m.Study.Environments, func(l study.Environment) bool { return l.Extra && l.CPUSet != "" })
}

func sections(run experiment.Run) ([]finding.Section, error) {
	m := run.Manifest()
	d := describe(run.Input, run.Claims.Tables, m.Study.Environments, m.CPUs)
	if len(d.Curves) == 0 {
		return nil, nil
	}
	return []finding.Section{section(d)}, nil
}
