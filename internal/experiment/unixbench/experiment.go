// Package unixbench is the experiment of the Unix index: the tests of UnixBench in
// 0..N containers next to a published study of a Loongson machine, the index of one
// target as UnixBench prints it (tare index), and machines set against each other by
// their scores (tare compare).
package unixbench

import (
	_ "embed" // the study and the publication
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

const name = "docker-on-loongson"

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
	return experiment.Experiment{Name: name, Study: studyFile, Published: publishedFile, Applies: applies, Sections: sections, Commands: commands, Flags: studyFlags}
}

// applies: to every run of a study that stands next to the publication, also a
// user's, and to those of tare index.
func applies(m store.Manifest) bool { return m.Study.Published == name || isIndex(m) }

// isIndex reports whether a run is one of tare index: a study of the user's own may
// have the id, too.
func isIndex(m store.Manifest) bool {
	return m.Study.ID == indexID && slices.ContainsFunc(m.Study.Environments, func(l study.Environment) bool { return l.Params["copies"] != "" })
}

func sections(run experiment.Run) ([]finding.Section, error) {
	in, err := inputOf(run.Run, run.Claims.Tables)
	if err != nil {
		return nil, err
	}
	m := run.Manifest()
	if isIndex(m) {
		c, err := describeIndex(m, in)
		if err != nil {
			return nil, err
		}
		return []finding.Section{indexSection(c)}, nil
	}
	in.Accels, in.Whetstone = run.Input.Accels, whetstoneOf(m.Study)
	if in.Published, err = publication(); err != nil {
		return nil, err
	}
	d, err := describe(in)
	if err != nil {
		return nil, err
	}
	s := section(d)
	next, err := studyNextTo(in)
	if err != nil {
		return nil, err
	}
	if len(next) > 0 {
		s.Tables, s.Note = append(s.Tables, next...), s.Note+" "+nextToLegend
	}
	s.Note = strings.TrimSpace(s.Note + " " + programsOf(m).Note())
	return []finding.Section{s}, nil
}
