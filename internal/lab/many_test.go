package lab

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/fake"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
)

// Too many instances are refused as bad input, by the limit's name and value, with the
// sum that exceeds it.
func TestTooManyAreRefused(t *testing.T) {
	pids, _ := numberIn(pidMax)
	for name, c := range map[string]struct {
		copies, concurrency int
		props               driver.Properties
		words               []string
	}{
		"memory": {1e7, 100, driver.Properties{}, []string{"10000000 instances, 100 under way", "9.538TiB", "10000000 x 1MiB + 100 under way x 16MiB", "the memory that is available is "}},
		"tasks": {10, 10, driver.Properties{Footprint: driver.Footprint{Tasks: 1e7}},
			[]string{"10 x 2 + 10 alive x 10000000 + 10 under way x 16", fmt.Sprintf("%s is %d", pidMax, pids)}},
		"tare's files":     {10, 10, driver.Properties{Footprint: driver.Footprint{LabFiles: 1 << 40}}, []string{" + 10 x 1099511627784", "tare's limit of open files (ulimit -n) is "}},
		"the daemon's own": {10, 10, driver.Properties{Footprint: driver.Footprint{DaemonFiles: 1 << 41}}, []string{"10 alive x 2199023255552", "the engine's limit of open files (ulimit -Hn) is "}},
		"ports":            {20, 11, driver.Properties{Ports: 10}, []string{"11 instances alive at once need a port each, and the network of there takes 10"}},
	} {
		d := fake.New("there", nil)
		d.Props = c.props
		p := &Plan{drivers: map[string]driver.Driver{"there": d}}
		p.Manifest.Cells = []study.Cell{{ID: "there/start", Target: "there", Copies: c.copies, Concurrency: c.concurrency}}
		err := p.fitMany(true)
		var input *InputError
		if !errors.As(err, &input) {
			t.Errorf("%s: %v; want bad input", name, err)
			continue
		}
		for _, words := range append(c.words, "cell there/start cannot run here") {
			if !strings.Contains(err.Error(), words) {
				t.Errorf("%s: %v; want %q", name, err, words)
			}
		}
		p.Manifest.Cells[0].Copies, p.Manifest.Cells[0].Concurrency, d.Props = 2, 2, driver.Properties{}
		if err := p.fitMany(true); err != nil {
			t.Errorf("%s: two are refused: %v", name, err)
		}
	}
}

// An engine's containers that are alive cost a shim each and the daemon's
// descriptors, in a held trial for all of them, else for those under way.
func TestNeedOfManyInAnEngine(t *testing.T) {
	of := driver.Footprint{Tasks: 12, DaemonFiles: 7, Memory: 3, LabFiles: 4}
	tasks := machineLimit{own: 300, each: 2, busy: 16, show: plainNumber, more: func(f driver.Footprint) (each, alive int) { return 0, f.Tasks }}
	daemon := machineLimit{show: plainNumber, more: func(f driver.Footprint) (each, alive int) { return 0, f.DaemonFiles }}
	own := machineLimit{own: 256, each: 8, show: plainNumber, more: func(f driver.Footprint) (each, alive int) { return f.LabFiles, 0 }}
	memory := machineLimit{each: 1, held: 8, busy: 16, show: plainNumber, more: func(f driver.Footprint) (each, alive int) { return 0, f.Memory }}
	for name, c := range map[string]struct {
		limit machineLimit
		of    driver.Footprint
		hold  bool // of 500, 100 under way
		need  int64
		sum   string
	}{
		"held, tasks":               {tasks, of, true, 300 + 1000 + 6000 + 1600, "300 + 500 x 2 + 500 alive x 12 + 100 under way x 16"},
		"started, tasks":            {tasks, of, false, 300 + 1000 + 1200 + 1600, "300 + 500 x 2 + 100 alive x 12 + 100 under way x 16"},
		"held in a runtime, tasks":  {tasks, driver.Footprint{}, true, 300 + 1000 + 1600, "300 + 500 x 2 + 100 under way x 16"},
		"held, daemon's files":      {daemon, of, true, 3500, "500 alive x 7"},
		"held in a runtime, daemon": {daemon, driver.Footprint{}, true, 0, ""},
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

// Of held instances the levels that have no room are left out; the plan is refused
// where they were asked for by number, where they are not held, and where a target that
// must run has no level left.
func TestLevelsWithoutRoom(t *testing.T) {
	held := workload.Job{Command: workload.Command{Hold: true}}
	for name, c := range map[string]struct {
		exact    bool
		workload string
		optional []string
		room     map[string]int // by target: how many fit
		kept     []string
		refused  string
	}{
		"all fit":                  {false, "hold", nil, map[string]int{"native": 16, "qemu": 16}, []string{"native+x1", "native+x16", "qemu+x1", "qemu+x16"}, ""},
		"a level does not":         {false, "hold", nil, map[string]int{"native": 16, "qemu": 1}, []string{"native+x1", "native+x16", "qemu+x1"}, ""},
		"asked for":                {true, "hold", nil, map[string]int{"native": 16, "qemu": 1}, nil, "no room for qemu+x16"},
		"not held":                 {false, "start", nil, map[string]int{"native": 16, "qemu": 1}, nil, "no room for qemu+x16"},
		"none of one that must":    {false, "hold", nil, map[string]int{"native": 16}, nil, "no room for qemu+x1"},
		"none of one that may not": {false, "hold", []string{"qemu"}, map[string]int{"native": 16}, []string{"native+x1", "native+x16"}, ""},
	} {
		p := &Plan{
			Manifest: store.Manifest{LeftOut: map[string]string{}, Study: study.Study{Optional: c.optional}},
			jobs:     map[jobKey]workload.Job{{"hold", ""}: held, {"start", ""}: {}},
		}
		for _, id := range []string{"native+x1", "native+x16", "qemu+x1", "qemu+x16"} {
			copies := 1
			if strings.HasSuffix(id, "+x16") {
				copies = 16
			}
			p.Manifest.Cells = append(p.Manifest.Cells, study.Cell{ID: id, Target: id[:strings.Index(id, "+")], Workload: c.workload, Copies: copies, Concurrency: 1})
		}
		err := p.withRoom(c.exact, func(cell study.Cell) error {
			if cell.Copies > c.room[cell.Target] {
				return errors.New("no room for " + cell.ID)
			}
			return nil
		})
		if c.refused != "" {
			if wrong := (*InputError)(nil); !errors.As(err, &wrong) || err.Error() != c.refused {
				t.Errorf("%s: %v, want %q", name, err, c.refused)
			}
			continue
		}
		var kept []string
		for _, cell := range p.Manifest.Cells {
			kept = append(kept, cell.ID)
		}
		if err != nil || !slices.Equal(kept, c.kept) || len(p.Manifest.LeftOut) != 4-len(kept) {
			t.Errorf("%s: kept %q, left out %v: %v", name, kept, p.Manifest.LeftOut, err)
		}
	}
}

// The n-th start is the last one's, whatever the others took.
func TestReadyOfTheLast(t *testing.T) {
	values, _ := heldTogether(0, 1, map[string][]float64{sample.Ready: {0.3, 0.1, 0.2}})
	i := slices.IndexFunc(values, func(v sample.Value) bool { return v.Metric == sample.ReadyLast })
	if i < 0 || values[i].Value != 0.2 {
		t.Errorf("%+v", values)
	}
}
