// Package kernelwaits is the experiment of what tasks wait for in the kernel: the
// waits and stacks of watched cells, the churn of kernel objects next to a published
// call tree, and interventions on causes. It has three studies; its sections are of
// every run that holds the like.
package kernelwaits

import (
	_ "embed" // the studies, the publication and its claims
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/published"
)

const name = "kernel-waits"

var (
	//go:embed cgroup-churn.yaml
	churnFile []byte
	//go:embed interventions.yaml
	interventionsFile []byte
	//go:embed favordynmods.yaml
	favordynmodsFile []byte
	//go:embed published.yaml
	publishedFile []byte
	//go:embed claims.yaml
	claimsFile []byte
)

// Experiment is the experiment, for the list of all.
func Experiment() experiment.Experiment {
	return experiment.Experiment{Name: name, Published: publishedFile, Applies: applies, Sections: sections, Commands: commands,
		More: map[string][]byte{"cgroup-churn": churnFile, "interventions": interventionsFile, "favordynmods": favordynmodsFile}}
}

// source is published.yaml.
type source struct {
	published.Source `yaml:",inline"`
	Host             struct {
		CPUs     int    `yaml:"cpus"`
		MemoryGB int    `yaml:"memory_gb"`
		Kernel   string `yaml:"kernel"`
		OS       string `yaml:"os"`
	} `yaml:"host"`
	Method   string         `yaml:"method"`
	Samples  int            `yaml:"samples"`
	Profile  []profileShare `yaml:"profile"`
	CallTree struct {
		Mkdirat struct {
			Total          float64            `yaml:"total"`
			FilenameCreate map[string]float64 `yaml:"filename_create"` // by symbol
			VFSMkdir       map[string]float64 `yaml:"vfs_mkdir"`
		} `yaml:"do_mkdirat"`
		Write map[string]float64 `yaml:"libc_write"`
	} `yaml:"call_tree"` // percent of all samples
}

// profileShare is one symbol's share of all samples.
type profileShare struct {
	Symbol  string  `yaml:"symbol"`
	Percent float64 `yaml:"percent"` // with its children
	Self    float64 `yaml:"self"`    // without; 0: not given
}

// applies: to every run that a probe watched, that churns, or that has interventions.
func applies(m store.Manifest) bool {
	return len(m.Study.Probes) > 0 || len(m.Study.Interventions) > 0 || slices.ContainsFunc(m.Study.Workloads, isChurn)
}

func isChurn(w study.Workload) bool { return strings.HasPrefix(w.Kind, "churn-") }

// sections are the advice, the churn and what watched cells waited for, in this order.
func sections(run experiment.Run) ([]finding.Section, error) {
	profiles, warnings, err := lab.Profiles(run.Run)
	if err != nil {
		return nil, err
	}
	merged, trials := map[string]profile.Profile{}, map[string]int{}
	for cell, sum := range profiles {
		merged[cell], trials[cell] = sum.Profile(), sum.Trials()
	}
	watched, limits := watchedCells(run.Input, merged, trials)
	warnings = append(warnings, limits...)
	var out []finding.Section
	m := run.Manifest()
	if len(m.Study.Interventions) > 0 {
		p99, err := p99ByBlock(run.Records())
		if err != nil {
			return nil, err
		}
		out = append(out, causesSection(causes(run.Input, run.Claims.Tables, watched, m.Study, p99, m.LeftOut)))
	}
	if cells := churnCells(m); len(cells) > 0 {
		s, err := published.Read(name, publishedFile, new(source))
		if err != nil {
			return nil, err
		}
		section := churnSection(churnOf(run.Input, cells, merged, s))
		if section.Claims, err = claimsOf(cells, s); err != nil {
			return nil, err
		}
		out = append(out, section)
	}
	waits := waitsSections(watched)
	if m.Study.ID == lab.ProfileStudy && len(waits) > 0 {
		s, err := published.Read(name, publishedFile, new(source))
		if err != nil {
			return nil, err
		}
		waits[0].Alone = true
		waits[0].Tables = append(waits[0].Tables, importedTables(watched[0], *s)...)
	}
	out = append(out, waits...)
	switch {
	case len(warnings) > 0 && len(out) == 0: // no profile can be read
		return nil, errors.New(strings.Join(warnings, "; "))
	case len(warnings) > 0:
		out[0].Warnings = warnings
	}
	return out, nil
}

// churnCells are the cells of churn workloads, with their threads.
func churnCells(m store.Manifest) []churnCell {
	byName := map[string]study.Workload{}
	for _, w := range m.Study.Workloads {
		byName[w.Name] = w
	}
	var cells []churnCell
	for _, c := range m.Cells {
		w := byName[c.Workload]
		if !isChurn(w) {
			continue
		}
		params := m.Study.ParamsOf(w, c.Limits, func(string) bool { return true })
		threads, err := strconv.Atoi(params["threads"])
		if times, ok := study.PerCPUTimes(params["threads"]); ok {
			threads = times * m.CPUs[c.Environment].Threads
		} else if err != nil {
			threads = 1 // the workload's own default
		}
		cells = append(cells, churnCell{Cell: c, Kind: w.Kind, Threads: threads})
	}
	return cells
}
