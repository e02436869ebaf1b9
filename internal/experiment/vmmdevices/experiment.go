// Package vmmdevices is the experiment of virtual machines' devices and memory: what each
// level of a study that gives something to guests gains over the level that gives nothing.
package vmmdevices

import (
	_ "embed" // the study
	"reflect"
	"slices"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

const name = "vmm-devices"

//go:embed study.yaml
var studyFile []byte

// Experiment is the experiment, for the list of all.
func Experiment() experiment.Experiment {
	return experiment.Experiment{Name: name, Study: studyFile, Applies: applies, Sections: sections}
}

// applies: to every run with a level that gives something to guests, but for those that
// stand beside a publication, whose experiment reports them.
func applies(m store.Manifest) bool {
	return m.Study.Published == "" && slices.ContainsFunc(m.Study.Environments, func(e study.Environment) bool { return given(e) })
}

// given reports whether a level gives something to guests.
func given(e study.Environment) bool { return e.Guest != nil && *e.Guest != (study.Guest{}) }

// gain is what a level gives over its base, on one machine and in one workload.
type gain struct {
	Target   string          `json:"target"`
	Workload string          `json:"workload"`
	Level    string          `json:"level"`
	Base     string          `json:"base"`
	Metric   sample.Metric   `json:"metric"`
	Here     *stats.Estimate `json:"here,omitempty"` // medians, in the metric's unit; nil where there are none
	There    *stats.Estimate `json:"base-value,omitempty"`
	Effect   analysis.Effect `json:"effect"` // the level by its base, within blocks
}

// describe sets each level that gives something to guests against the one that differs
// from it in nothing else.
func describe(in analysis.Input, tables []analysis.Table) []gain {
	in = in.WithDefaults()
	base := func(c study.Cell) (string, bool) {
		if !given(c.Limits) {
			return "", false
		}
		i := slices.IndexFunc(in.Cells, func(o study.Cell) bool { return o.Workload == c.Workload && isBase(o.Limits, c.Limits) })
		if i < 0 {
			return "", false
		}
		return in.Cells[i].Environment, true
	}
	var out []gain
	for _, l := range in.Levels(tables, base) {
		out = append(out, gain{Target: l.Cell.Target, Workload: l.Cell.Workload, Level: l.Cell.Environment, Base: l.Base.Environment, Metric: l.Metric,
			Here: median(in, l.Cell.ID, l.Metric.Name), There: median(in, l.Base.ID, l.Metric.Name), Effect: *l.Contrast.Effect()})
	}
	return out
}

// isBase reports whether a level differs from another in what it gives to guests alone,
// and gives nothing.
func isBase(base, of study.Environment) bool {
	if given(base) {
		return false
	}
	base.Name, of.Name, base.Guest, of.Guest = "", "", nil, nil
	return reflect.DeepEqual(base, of)
}

func median(in analysis.Input, cell, metric string) *stats.Estimate {
	s := in.Series(cell, metric)
	if s.Len() == 0 {
		return nil
	}
	return new(stats.OfMedian(s.Values(), stats.Source(in.Seed, "vmm-devices", cell, metric)))
}

func sections(run experiment.Run) ([]finding.Section, error) {
	gains := describe(run.Input, run.Claims.Tables)
	if len(gains) == 0 {
		return nil, nil
	}
	return []finding.Section{section(gains)}, nil
}

// section says it, a row for each level of each workload.
func section(gains []gain) finding.Section {
	s := finding.Section{ID: name, Title: "What each device gains", Data: gains, Alone: true, TableFirst: true,
		Note: "A ratio is of a level by the same machine without what the level gives, within blocks. A row without a verdict has too few blocks."}
	t := finding.Table{Title: "Each level against the plain machine", Head: []string{"workload", "target", "level", "metric", "plain", "with it", "ratio", "verdict"}, Words: true}
	for _, g := range gains {
		t.Rows = append(t.Rows, []string{g.Workload, g.Target, g.Level, g.Metric.Name, value(g.Metric, g.There), value(g.Metric, g.Here),
			quantity.Ratio(g.Effect.Ratio, g.Effect.Interval).String(), string(g.Effect.Verdict)})
		if words := g.Effect.Size; words != "" {
			s.Findings = append(s.Findings, g.Workload+" on "+g.Target+" with "+g.Level+": "+words+".")
		}
	}
	s.Tables = []finding.Table{t}
	s.Headline = s.Findings[:min(len(s.Findings), 3)]
	return s
}

func value(m sample.Metric, e *stats.Estimate) string {
	if e == nil {
		return ""
	}
	return quantity.Of(m.Unit, e.Value, e.Interval)
}
