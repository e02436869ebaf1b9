package lab

import (
	"testing"

	"github.com/tarelab/tare/internal/target"
)

// An engine's containers that are alive cost a shim each and the daemon's
// descriptors, in a held trial for all of them, else for those under way.
func TestNeedOfManyInAnEngine(t *testing.T) {
	of := target.Footprint{Tasks: 12, DaemonFiles: 7, Memory: 3, LabFiles: 4}
	tasks := machineLimit{own: 300, each: 2, busy: 16, show: plainNumber, more: func(f target.Footprint) (each, alive int) { return 0, f.Tasks }}
	daemon := machineLimit{show: plainNumber, more: func(f target.Footprint) (each, alive int) { return 0, f.DaemonFiles }}
	own := machineLimit{own: 256, each: 8, show: plainNumber, more: func(f target.Footprint) (each, alive int) { return f.LabFiles, 0 }}
	memory := machineLimit{each: 1, held: 8, busy: 16, show: plainNumber, more: func(f target.Footprint) (each, alive int) { return 0, f.Memory }}
	for name, c := range map[string]struct {
		limit machineLimit
		of    target.Footprint
		hold  bool // of 500, 100 under way
		need  int64
		sum   string
	}{
		"held, tasks":               {tasks, of, true, 300 + 1000 + 6000 + 1600, "300 + 500 x 2 + 500 alive x 12 + 100 under way x 16"},
		"started, tasks":            {tasks, of, false, 300 + 1000 + 1200 + 1600, "300 + 500 x 2 + 100 alive x 12 + 100 under way x 16"},
		"held in a runtime, tasks":  {tasks, target.Footprint{}, true, 300 + 1000 + 1600, "300 + 500 x 2 + 100 under way x 16"},
		"held, daemon's files":      {daemon, of, true, 3500, "500 alive x 7"},
		"held in a runtime, daemon": {daemon, target.Footprint{}, true, 0, ""},
		"held, tare's files":        {own, of, true, 256 + 6000, "256 + 500 x 12"},
		"held, memory":              {memory, of, true, 4000 + 1500 + 1600, "500 x 8 + 500 alive x 3 + 100 under way x 16"},
		"started, memory":           {memory, of, false, 500 + 300 + 1600, "500 x 1 + 100 alive x 3 + 100 under way x 16"},
	} {
		alive := int64(100)
		if c.hold {
			alive = 500
		}
		if need, sum := c.limit.need(500, 100, alive, c.hold, c.of); need != c.need || sum != c.sum {
			t.Errorf("%s: %d = %s, want %d = %s", name, need, sum, c.need, c.sum)
		}
	}
}
