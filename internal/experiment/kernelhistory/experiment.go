// Package kernelhistory is the experiment of the kernel as a factor: the same work in
// guests that differ in their kernel alone, and what changed from each kernel to the
// next. It also reads every other run whose targets are one machine with several kernels.
package kernelhistory

import (
	_ "embed" // the study

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/store"
)

const name = "kernel-history"

//go:embed study.yaml
var studyFile []byte

// Experiment is the experiment, for the list of all.
func Experiment() experiment.Experiment {
	return experiment.Experiment{Name: name, Study: studyFile, Applies: applies, Sections: sections}
}

// applies: to every run that has a machine with two kernels.
func applies(m store.Manifest) bool { return len(machinesOf(m)) > 0 }

func sections(run experiment.Run) ([]finding.Section, error) {
	steps := stepsOf(run)
	if len(steps) == 0 {
		return nil, nil
	}
	return []finding.Section{section(steps)}, nil
}
