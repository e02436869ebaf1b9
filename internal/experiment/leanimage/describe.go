package leanimage

import (
	"cmp"
	"slices"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// description is what the image and the page cache cost.
type description struct {
	Lean     string    `json:"lean"`     // the level that images are compared with
	Images   []effect  `json:"images"`   // other images against it, with the same page cache
	Caches   []effect  `json:"caches"`   // a cold page cache against a warm one, in the same image
	Programs []program `json:"programs"` // what ran
}

// effect is the cost of one workload on one target at a level against another.
type effect struct {
	Target   string           `json:"target"`
	Workload string           `json:"workload"`
	Level    string           `json:"level"`
	Base     string           `json:"base"`
	Metric   string           `json:"metric"`
	Ratio    float64          `json:"ratio,omitempty"` // of the metric
	Interval stats.Interval   `json:"interval"`
	Verdict  analysis.Verdict `json:"verdict"`
	Words    string           `json:"words"` // the size, or the bound of what is open
}

// program is what one workload runs, by level.
type program struct {
	Workload string            `json:"workload"`
	Digests  map[string]string `json:"digests"`
	Same     bool              `json:"same"` // at all levels
}

// describe compares the images with the first that the study names, and page caches
// within an image.
func describe(in analysis.Input, tables []analysis.Table, levels []study.Environment, images map[string]store.LevelImage) description {
	var d description
	find := func(image, cache string) string {
		i := slices.IndexFunc(levels, func(l study.Environment) bool { return l.Image == image && l.PageCache == cache })
		if i < 0 {
			return ""
		}
		return levels[i].Name
	}
	i := slices.IndexFunc(levels, func(l study.Environment) bool { return l.Image != "" })
	if i < 0 {
		return d
	}
	d.Lean = levels[i].Name
	d.Programs = programs(images)
	d.Images = effects(in.Levels(tables, func(c study.Cell) (string, bool) {
		base := find(levels[i].Image, c.Limits.PageCache)
		return base, base != "" && c.Limits.Image != "" && c.Limits.Image != levels[i].Image && d.same(c.Workload)
	}))
	d.Caches = effects(in.Levels(tables, func(c study.Cell) (string, bool) {
		base := find(c.Limits.Image, "")
		return base, base != "" && c.Limits.PageCache != ""
	}))
	return d
}

// same reports whether a workload ran the same program at all levels; one that runs no
// program but the mark did.
func (d description) same(workload string) bool {
	return !slices.ContainsFunc(d.Programs, func(p program) bool { return p.Workload == workload && !p.Same })
}

func programs(images map[string]store.LevelImage) []program {
	var out []program
	for level, image := range images {
		for workload, digest := range image.Programs {
			i := slices.IndexFunc(out, func(p program) bool { return p.Workload == workload })
			if i < 0 {
				i = len(out)
				out = append(out, program{Workload: workload, Digests: map[string]string{}, Same: true})
			}
			for _, other := range out[i].Digests {
				out[i].Same = out[i].Same && other == digest
			}
			out[i].Digests[level] = digest
		}
	}
	slices.SortFunc(out, func(a, b program) int { return cmp.Compare(a.Workload, b.Workload) })
	return out
}

func effects(levels []analysis.Level) []effect {
	var out []effect
	for _, l := range levels {
		e := l.Contrast.Effect()
		out = append(out, effect{Target: l.Cell.Target, Workload: l.Cell.Workload, Level: l.Cell.Environment, Base: l.Base.Environment,
			Metric: l.Metric.Name, Ratio: e.Ratio, Interval: e.Interval, Verdict: e.Verdict, Words: cmp.Or(e.Size, e.Bound)})
	}
	return out
}
