// Package containervmtrim is the experiment of container hosts: their boot before and
// after what containers do not need was left out, and single choices of kernel and
// machine. It repeats a published thesis and is reported next to it. Boots of a user's
// own machines are shown the same way, without the publication.
package containervmtrim

import (
	_ "embed" // the studies, the publication and its claims

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/kerneltools/bootstudy"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/store"
)

const name = bootstudy.PublishedBy

var (
	//go:embed study.yaml
	studyFile []byte
	//go:embed boot-levers.yaml
	leversFile []byte
	//go:embed published.yaml
	publishedFile []byte
	//go:embed claims.yaml
	claimsFile []byte
)

// Experiment is the experiment, for the list of all. tare boot profile --published
// reads its publication too.
func Experiment() experiment.Experiment {
	return experiment.Experiment{Name: name, Study: studyFile, More: map[string][]byte{"boot-levers": leversFile},
		Published: publishedFile, Applies: applies, Sections: sections}
}

// applies: to every run of a study that stands next to the publication, also a user's,
// and to those of tare boot run.
func applies(m store.Manifest) bool {
	return m.Study.Published == name || m.Study.ID == lab.BootStudy
}

func sections(run experiment.Run) ([]finding.Section, error) {
	d, err := bootstudy.ReadPublished(publishedFile)
	if err != nil {
		return nil, err
	}
	boots, unread := bootstudy.Of(run.Run, run.Input, run.Claims.Tables)
	said := describe(boots, d)
	claims, err := claimsOf(said)
	if err != nil {
		return nil, err
	}
	s := section(said, claims)
	if unread != nil { // the other consoles are described
		s.Warnings = append(s.Warnings, unread.Error())
	}
	return []finding.Section{s}, nil
}
