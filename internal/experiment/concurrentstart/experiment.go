// Package concurrentstart is the experiment of many containers at once: by which law
// the cost of n starts grows, where the time goes, and what each container weighs. It
// repeats a published analysis of Docker's concurrency and is reported next to it.
package concurrentstart

import (
	_ "embed" // the study, the publication and its claims
	"slices"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
	"github.com/tarelab/tare/published"
)

const name = "concurrent-start"

var (
	//go:embed study.yaml
	studyFile []byte
	//go:embed published.yaml
	publishedFile []byte
	//go:embed claims.yaml
	claimsFile []byte
)

// Experiment is the experiment, for the list of all.
func Experiment() experiment.Experiment {
	return experiment.Experiment{Name: name, Study: studyFile, Published: publishedFile, Applies: applies, Sections: sections}
}

// applies: to every run of a study that stands next to the publication, also a user's.
func applies(m store.Manifest) bool { return m.Study.Published == name }

func sections(run experiment.Run) ([]finding.Section, error) {
	d, err := published.Read(name, publishedFile, new(source))
	if err != nil {
		return nil, err
	}
	in, err := inputOf(run, d)
	if err != nil {
		return nil, err
	}
	said := describe(in)
	claims, err := claimsOf(said)
	if err != nil {
		return nil, err
	}
	return []finding.Section{section(said, claims)}, nil
}

// inputOf reads a run.
func inputOf(run experiment.Run, d *source) (input, error) {
	m := run.Manifest()
	// What is measured at levels of its own is another question's: that of CPUs, by cores.
	cells := slices.DeleteFunc(slices.Clone(m.Cells), func(c study.Cell) bool { return c.Limits.Extra })
	in := input{Cells: cells, Tables: run.Claims.Tables, Published: d, CPUs: m.Host.CPUs, Image: m.ImageSource,
		Held: map[string]bool{}, Missing: m.MissingCounters, Unread: map[string]string{}, Seed: m.Seed}
	for _, w := range m.Study.Workloads {
		in.Held[w.Name] = w.Kind == workload.KindHold
	}
	for target, facts := range m.Targets {
		in.Unread[target] = facts.Notes[driver.NoteUnread]
	}
	var err error
	in.Records, err = recordsOf(run)
	return in, err
}

func recordsOf(run experiment.Run) ([]sample.Record, error) {
	var records []sample.Record
	for r, err := range run.Records() {
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, nil
}
