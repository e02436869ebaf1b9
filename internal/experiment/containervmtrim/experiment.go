// Package containervmtrim is the experiment of container hosts: their boot before and
// after what containers do not need was left out, and single choices of kernel and
// machine. It repeats a published thesis and is reported next to it. Boots of a user's
// own machines are shown the same way, without the publication.
package containervmtrim

import (
	_ "embed" // the studies

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/kerneltools/bootstudy"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/published"
)

const name = "container-vm-trim"

var (
	//go:embed study.yaml
	studyFile []byte
	//go:embed boot-levers.yaml
	leversFile []byte
)

// Experiment is the experiment, for the list of all. Its publication is in published/:
// tare boot profile --published reads it too.
func Experiment() experiment.Experiment {
	return experiment.Experiment{Name: name, Study: studyFile, More: map[string][]byte{"boot-levers": leversFile}, Applies: applies, Sections: sections}
}

// applies: to every run of a study that stands next to the publication, also a user's,
// and to those of tare boot run.
func applies(m store.Manifest) bool {
	return m.Study.Published == name || m.Study.ID == lab.BootStudy
}

func sections(run experiment.Run) ([]finding.Section, error) {
	d, err := published.LoadAs[*published.ContainerVMTrim](name)
	if err != nil {
		return nil, err
	}
	boots, unread := bootstudy.Of(run.Run, run.Input, run.Claims.Tables)
	s := section(describe(boots, d))
	if unread != nil { // the other consoles are described
		s.Warnings = append(s.Warnings, unread.Error())
	}
	return []finding.Section{s}, nil
}
