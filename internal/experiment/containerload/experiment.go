// Package containerload is the experiment of three containers over time: package
// work, an idle agent, and one that starts late. It also shows what tare watch
// recorded of other containers.
package containerload

import (
	_ "embed" // the study and the publication
	"slices"

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
	"github.com/tarelab/tare/published"
)

const name = "container-load"

var (
	//go:embed study.yaml
	studyFile []byte
	//go:embed published.yaml
	publishedFile []byte
)

// Experiment is the experiment, for the list of all.
func Experiment() experiment.Experiment {
	return experiment.Experiment{Name: name, Study: studyFile, Published: publishedFile, Applies: applies, Sections: sections}
}

// source is published.yaml.
type source struct {
	published.Source `yaml:",inline"`
	Minutes          int     `yaml:"window_min"`
	PackageCPU       float64 `yaml:"package_work_cpu_peak_percent"` // of one CPU
	LateCPU          float64 `yaml:"late_start_cpu_percent"`        // of one CPU
	Read             float64 `yaml:"disk_read_peak_mb_s"`           // 10^6 bytes a second
	Written          float64 `yaml:"disk_write_peak_mb_s"`          // 10^6 bytes a second
}

// applies: to every run of the workload, whatever its study, and to those of tare watch.
func applies(m store.Manifest) bool {
	return m.Study.ID == lab.WatchStudy || slices.ContainsFunc(m.Study.Workloads, isLoad)
}

func isLoad(w study.Workload) bool { return w.Kind == workload.KindLoad }

func sections(run experiment.Run) ([]finding.Section, error) {
	if run.Manifest().Study.ID == lab.WatchStudy {
		watched, err := recorded(run)
		if err != nil {
			return nil, err
		}
		return []finding.Section{section(describe([]trial{{Containers: watched}}, nil))}, nil
	}
	trials, err := trialsOf(run)
	if err != nil || len(trials) == 0 {
		return nil, err
	}
	d, err := published.Read(name, publishedFile, new(source))
	if err != nil {
		return nil, err
	}
	return []finding.Section{section(describe(trials, d))}, nil
}
