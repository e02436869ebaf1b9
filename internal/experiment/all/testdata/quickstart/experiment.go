// Package quickstart is what a newcomer adds by docs/adding-an-experiment.md.
package quickstart

import (
	_ "embed" // the study and the publication
	"fmt"

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/published"
)

const name = "quick-start"

var (
	//go:embed study.yaml
	studyFile []byte
	//go:embed published.yaml
	publishedFile []byte
)

// Experiment is the experiment, for the list of all.
func Experiment() experiment.Experiment {
	return experiment.Experiment{Name: name, Study: studyFile, Published: publishedFile, Sections: sections}
}

type source struct {
	published.Source `yaml:",inline"`
	Start            float64 `yaml:"start_ms"`
}

func sections(run experiment.Run) ([]finding.Section, error) {
	d, err := published.Read(name, publishedFile, new(source))
	if err != nil {
		return nil, err
	}
	s := run.Input.Summary("host/start", sample.Ready)
	found := fmt.Sprintf("A start takes %s here; published are %g ms.", quantity.Of(sample.Seconds, s.Median, s.Interval), d.Start)
	return []finding.Section{{ID: name, Title: "A start next to a published one", Findings: []string{found}, Headline: []string{found}, Note: d.Citation}}, nil
}
