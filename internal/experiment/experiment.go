// Package experiment is the seam between the instrument and its experiments. The
// instrument measures any study and knows none of them; an experiment is one folder
// that says what to run and what its runs say beyond the tables that every run gets.
// docs/adding-an-experiment.md shows how to add one.
package experiment

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/studies"
)

// Experiment is one published or built-in experiment: what to run, and what its
// runs say beyond the tables that every run gets.
type Experiment struct {
	Name  string // the study's id; the folder mostly has the same name without hyphens
	Study []byte // study.yaml, embedded; nil where only runs of other studies are read
	// More are further studies of the folder, by id; nil for none.
	More      map[string][]byte
	Published []byte // published.yaml, embedded; nil for none
	// Applies reports whether the experiment has something to say of a run. Nil: when
	// the study's id is Name.
	Applies func(store.Manifest) bool
	// Sections reads a run. It returns no section where the run holds nothing for it.
	// An error becomes a warning of the report: the tables are still shown.
	Sections func(Run) ([]finding.Section, error)
	// Commands are the experiment's own verbs, nil for none.
	Commands func(Laboratory) []*cobra.Command
	// Flags defines the experiment's own flags of tare run. The function that it returns
	// completes whatever study is to be run by them; its errors are bad input. A flag for a
	// directory is marked so (cobra.MarkFlagDirname): a fleet wants it absolute. Nil for none.
	Flags func(*pflag.FlagSet) func(study.Study) (study.Study, error)
}

// Run is a recorded run as an experiment reads it: the manifest, the records and the
// files next to them (through the store), the analysis' input (values by cell, metric
// and block), and the tables of every cell and metric.
type Run struct {
	*store.Run
	Input  analysis.Input
	Claims analysis.Claims
}

// List is the experiments that a build of tare has, in the order of their sections in
// a report.
type List []Experiment

// StudyNames lists the built-in studies in alphabetical order: those that need no
// code and those of experiments.
func (l List) StudyNames() []string {
	names := studies.Names()
	for _, e := range l {
		names = slices.AppendSeq(names, maps.Keys(e.studies()))
	}
	slices.Sort(names)
	return names
}

// StudyText gives the text of a built-in study. The error of an unknown name names
// the nearest one.
func (l List) StudyText(name string) ([]byte, error) {
	for _, e := range l {
		if text := e.studies()[name]; text != nil {
			return text, nil
		}
	}
	if data, ok := studies.Read(name); ok {
		return data, nil
	}
	names := l.StudyNames()
	if near := study.Nearest(name, names); near != "" {
		return nil, fmt.Errorf("no built-in study %q: did you mean %q? A file is named with its path, as in ./%s.yaml", name, near, name)
	}
	return nil, fmt.Errorf("no built-in study %q: there are %s; a file is named with its path, as in ./%s.yaml", name, strings.Join(names, ", "), name)
}

// Publication gives an experiment's published.yaml.
func (l List) Publication(name string) ([]byte, error) {
	i := slices.IndexFunc(l, func(e Experiment) bool { return e.Name == name && e.Published != nil })
	if i < 0 {
		return nil, fmt.Errorf("no experiment %q with published measurements is in this build", name)
	}
	return l[i].Published, nil
}

// Report makes a run's report out of its records: the tables of every run, then what
// the experiments say of this one.
func (l List) Report(run *store.Run) (report.Input, error) {
	in, out, err := lab.Report(run)
	if err != nil {
		return report.Input{}, err
	}
	r := Run{Run: run, Input: in, Claims: out.Claims}
	for _, e := range l {
		if !e.applies(run.Manifest()) {
			continue
		}
		sections, err := e.Sections(r)
		if err != nil {
			out.Claims.Warnings = append(out.Claims.Warnings, analysis.Warning{Text: e.Name + ": " + err.Error()})
			continue
		}
		out.Sections = append(out.Sections, sections...)
	}
	return out, nil
}

// studies are all of the folder, by id.
func (e Experiment) studies() map[string][]byte {
	all := map[string][]byte{}
	maps.Copy(all, e.More)
	if e.Study != nil {
		all[e.Name] = e.Study
	}
	return all
}

func (e Experiment) applies(m store.Manifest) bool {
	switch {
	case e.Sections == nil:
		return false
	case e.Applies == nil:
		return m.Study.ID == e.Name
	}
	return e.Applies(m)
}
