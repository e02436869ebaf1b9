package analysis

import (
	"strings"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// Attaching is what it takes to attach one more container: the time to ready of one
// whose clock holds the attaching, less that of one whose link is there already, in
// the same block. The median over blocks, in seconds.
type Attaching struct {
	Target     string         `json:"target"` // without its path
	Level      string         `json:"level"`
	Containers int            `json:"containers"` // on the bridge with it
	Seconds    float64        `json:"seconds"`
	Interval   stats.Interval `json:"interval"` // 95 %
	Blocks     int            `json:"blocks"`
	Refused    bool           `json:"refused,omitempty"` // the machine was too noisy for a claim
}

// attachPath is the path whose clock holds the attaching.
const attachPath = "attach"

func (in Input) attachings(tables []Table) []Attaching {
	var out []Attaching
	for _, c := range in.Cells {
		base, path, _ := strings.Cut(c.Target, study.PathSign)
		if path != attachPath || c.AA || c.Probe != "" {
			continue
		}
		with, without := in.Data.cells[c.ID], in.Data.cells[in.sibling(c, base+study.PathSign+"bridge")]
		var more []float64
		pairs(with.series(sample.Ready), without.series(sample.Ready), func(_ int32, x, y float64) { more = append(more, x-y) })
		if len(more) == 0 {
			continue
		}
		more = stats.Sorted(more)
		a := Attaching{Target: base, Level: c.Environment, Containers: containers(c), Seconds: stats.Median(more), Blocks: len(more),
			Interval: stats.MedianIntervals(more, stats.Source(in.Seed, "attach", c.ID), 0.95)[0]}
		if t, ok := primaryOf(tables, c); ok {
			a.Refused = refused(t)
		}
		out = append(out, a)
	}
	return out
}
