package bridgenetwork

import (
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// attaching is what it takes to attach one more container: the time to ready of one
// whose clock holds the attaching, less that of one whose link is there already, in
// the same block. The median over blocks, in seconds.
type attaching struct {
	Target     string         `json:"target"` // without its path
	Level      string         `json:"level"`
	Containers int            `json:"containers"` // on the bridge with it
	Seconds    float64        `json:"seconds"`
	Interval   stats.Interval `json:"interval"` // 95 %
	Blocks     int            `json:"blocks"`
	Refused    bool           `json:"refused,omitempty"` // the machine was too noisy for a claim
}

func (r reader) attachings() []attaching {
	var out []attaching
	for _, c := range r.Cells {
		base, path := onPath(c.Target)
		if path != attach || !plain(c) {
			continue
		}
		with, without := r.Series(c.ID, sample.Ready), r.Series(r.sibling(c, base+study.PathSign+onBridge).ID, sample.Ready)
		var more []float64
		with.Pairs(without, func(_ int, x, y float64) { more = append(more, x-y) })
		if len(more) == 0 {
			continue
		}
		more = stats.Sorted(more)
		out = append(out, attaching{Target: base, Level: c.Environment, Containers: containers(c), Seconds: stats.Median(more), Blocks: len(more),
			Interval: stats.MedianIntervals(more, stats.Source(r.Seed, "attach", c.ID), 0.95)[0], Refused: r.refused(c)})
	}
	return out
}
