// Package vmmcompare is the experiment of virtual machine monitors: their boots, their
// memory, and what a kernel of its own costs. One of its two studies repeats a published
// comparison of StratoVirt and QEMU, and is reported next to it.
package vmmcompare

import (
	_ "embed" // the studies, the publication and its claims
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/published"
)

const (
	name = "vmm-compare"
	// repeated is the id of the publication, and of the study that repeats it.
	repeated = "stratovirt-vs-qemu"
)

var (
	//go:embed study.yaml
	studyFile []byte
	//go:embed stratovirt-vs-qemu.yaml
	repeatedFile []byte
	//go:embed published.yaml
	publishedFile []byte
	//go:embed claims.yaml
	claimsFile []byte
)

// Experiment is the experiment, for the list of all.
func Experiment() experiment.Experiment {
	return experiment.Experiment{Name: name, Study: studyFile, More: map[string][]byte{repeated: repeatedFile},
		Published: publishedFile, Applies: applies, Sections: sections}
}

// applies: to every run of a study that stands beside the publication, also a user's.
func applies(m store.Manifest) bool { return m.Study.Published == repeated }

func sections(run experiment.Run) ([]finding.Section, error) {
	d, err := published.Read(repeated, publishedFile, new(source))
	if err != nil {
		return nil, err
	}
	m := run.Manifest()
	c, err := describe(run.Input, run.Claims.Tables, m.Study.Control, kernelFiles(m), d)
	if err != nil {
		return nil, err
	}
	if !c.Measured("stratovirt") {
		c.CannotHere = withoutStratoVirt(m)
	}
	return []finding.Section{section(c)}, nil
}

// kernelFiles are the files that guests' kernels were made of, by target.
func kernelFiles(m store.Manifest) map[string]string {
	files := map[string]string{}
	for name, facts := range m.Targets {
		files[name] = facts.Notes[driver.NoteKernelFile]
	}
	return files
}

// withoutStratoVirt says why a run that asked for StratoVirt has no numbers of it; ""
// for one that did not ask.
func withoutStratoVirt(m store.Manifest) string {
	why := ""
	for _, name := range slices.Concat(m.Study.Targets, m.Study.Optional) {
		if !strings.HasPrefix(name, "stratovirt/") {
			continue
		}
		if left := m.LeftOut[name]; left != "" {
			return left
		}
		if _, worked := m.Targets[name]; worked {
			return "its trials gave no numbers"
		}
		why = "tare knows none for " + m.Host.Arch
	}
	return why
}
