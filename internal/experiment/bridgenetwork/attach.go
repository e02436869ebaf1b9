package bridgenetwork

import (
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// attaching is what it takes to take a container from its network and to attach it
// again, both inside the clock of the path attach.
type attaching struct {
	Target     string `json:"target"` // without its path
	Level      string `json:"level"`
	Containers int    `json:"containers"` // on the network with it
	Attach     cost   `json:"attach"`
	Detach     cost   `json:"detach"`
	Blocks     int    `json:"blocks"`
	Refused    bool   `json:"refused,omitempty"` // the machine was too noisy for a claim
}

// cost is a median over blocks, in seconds.
type cost struct {
	Seconds  float64        `json:"seconds"`
	Interval stats.Interval `json:"interval"` // 95 %
}

func (r reader) attachings() []attaching {
	var out []attaching
	for _, c := range r.Cells {
		base, path := onPath(c.Target)
		if path != attach || !plain(c) {
			continue
		}
		detached := r.Series(c.ID, sample.Detached)
		var attach, detach []float64
		r.Series(c.ID, sample.Attached).Pairs(detached, func(_ int, after, before float64) {
			attach, detach = append(attach, after-before), append(detach, before)
		})
		if len(attach) == 0 {
			continue
		}
		out = append(out, attaching{Target: base, Level: c.Environment, Containers: containers(c), Blocks: len(attach), Refused: r.refused(c),
			Attach: r.cost(attach, c, sample.Attached), Detach: r.cost(detach, c, sample.Detached)})
	}
	return out
}

func (r reader) cost(seconds []float64, c study.Cell, metric string) cost {
	e := stats.OfMedian(seconds, stats.Source(r.Seed, "attach", c.ID, metric))
	return cost{e.Value, e.Interval}
}
