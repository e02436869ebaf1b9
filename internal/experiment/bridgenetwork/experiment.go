// Package bridgenetwork is the experiment of the network between two containers: what
// the bridge and other paths cost, whether that grows with the containers on the
// bridge, and which choices are cheaper. It stands next to a published measurement.
package bridgenetwork

import (
	_ "embed" // the studies, the publication and its claims

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/published"
)

const (
	name = "bridge-network" // also of the publication
	// ladder is the study that takes the path apart, one thing after another.
	ladder = "network-ladder"
)

var (
	//go:embed study.yaml
	studyFile []byte
	//go:embed network-ladder.yaml
	ladderFile []byte
	//go:embed published.yaml
	publishedFile []byte
	//go:embed claims.yaml
	claimsFile []byte
)

// Experiment is the experiment, for the list of all.
func Experiment() experiment.Experiment {
	return experiment.Experiment{Name: name, Study: studyFile, More: map[string][]byte{ladder: ladderFile},
		Published: publishedFile, Applies: applies, Sections: sections}
}

// applies: to every run of a study that names the publication, also a user's.
func applies(m store.Manifest) bool { return m.Study.Published == name }

func sections(run experiment.Run) ([]finding.Section, error) {
	d, err := published.Read(name, publishedFile, new(source))
	if err != nil {
		return nil, err
	}
	n, err := describe(run.Input, run.Claims.Tables, d)
	if err != nil {
		return nil, err
	}
	return []finding.Section{section(n, run.Claims.Tables)}, nil
}

// source is published.yaml: TCP throughputs on a host, in one container and across
// containers on one bridge.
type source struct {
	published.Source `yaml:",inline"`
	Host             struct {
		CPU      string `yaml:"cpu"`
		MemoryGB int    `yaml:"memory_gb"`
		OS       string `yaml:"os"`
		Kernel   string `yaml:"kernel"`
		Docker   string `yaml:"docker"`
	} `yaml:"host"`
	Protocol   string          `yaml:"protocol"`
	Conditions places[string]  `yaml:"conditions"`
	Purpose    string          `yaml:"purpose"`
	Throughput places[float64] `yaml:"throughput_gbit_s"` // Gbit/s (10^9 bit)
	Scaling    struct {
		Containers string   `yaml:"containers"`
		Conditions []string `yaml:"conditions"`
		// Loss is what one more container costs, of the maximum.
		Loss struct {
			Percent float64 `yaml:"percent"`
			Mbit    float64 `yaml:"mbit_s"` // 10^6 bit/s
		} `yaml:"loss_per_container"`
	} `yaml:"scaling"`
}

// places is something known for each place where the two ends were.
type places[T any] struct {
	Host           T `yaml:"host"`
	SameContainer  T `yaml:"same_container"`
	CrossContainer T `yaml:"cross_container"`
}
