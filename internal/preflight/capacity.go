package preflight

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/go-units"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/netpath"
	"github.com/tarelab/tare/internal/study"
)

// Resource is what instances use up.
type Resource int

// The resources that many instances meet first.
const (
	Memory      Resource = iota // bytes
	LabFiles                    // descriptors of tare
	DaemonFiles                 // descriptors of an engine's daemon
	Tasks                       // processes and threads
)

// Capacity is how much of a resource a machine gives.
type Capacity struct {
	Of    Resource
	Name  string // as the user finds it: a file, an ulimit
	Value int64  // that is never exceeded
	InUse int64  // of Value, before the first instance; 0 where Value is what is left
}

// labFiles are tare's own descriptors besides those for instances and probes.
const labFiles = 256

// cost is what the instances of a cell take of a resource: so much each, so much
// more while one is being started, and what the target adds. The numbers are
// rough and rounded up: a plan that cannot work is refused before it starts.
type cost struct {
	each, held, starting int64 // held replaces each for instances that are held
	// adds is what a target's footprint and the payload add for each instance, and
	// for each that is alive.
	adds func(f driver.Footprint, payload int64) (each, alive int64)
	what func(inUse int64) string
	show func(int64) string
}

// costs is the one model of what instances take.
var costs = map[Resource]cost{
	Memory: {
		each:     1 << 20,  // of one that waits or has ended: launcher, mounts, groups, pipes
		held:     8 << 20,  // of one that is alive and does nothing, with its runtime
		starting: 16 << 20, // runc's init and what the kernel keeps for it, the largest on the host's kernel
		adds: func(f driver.Footprint, payload int64) (each, alive int64) {
			return 0, int64(f.Memory) + payload
		},
		what: func(int64) string { return "of memory" },
		show: showBytes,
	},
	LabFiles: {
		each: 8, // pipes for two streams and three reports
		adds: func(f driver.Footprint, _ int64) (each, alive int64) { return int64(f.LabFiles), 0 },
		what: func(int64) string { return "descriptors" },
		show: showNumber,
	},
	DaemonFiles: {
		adds: func(f driver.Footprint, _ int64) (each, alive int64) { return 0, int64(f.DaemonFiles) },
		what: func(int64) string { return "descriptors of its daemon" },
		show: showNumber,
	},
	Tasks: {
		each:     2,  // launcher and payload
		starting: 16, // a runtime's threads
		adds:     func(f driver.Footprint, _ int64) (each, alive int64) { return 0, int64(f.Tasks) },
		what: func(inUse int64) string {
			return "processes and threads, " + showNumber(inUse) + " of them running now"
		},
		show: showNumber,
	},
}

func showNumber(n int64) string { return strconv.FormatInt(n, 10) }
func showBytes(n int64) string  { return units.BytesSize(float64(n)) }

// load is how many instances a cell has at once, and what each adds.
type load struct {
	instances, starting, alive int64
	hold                       bool
	footprint                  driver.Footprint
	payload                    int64 // bytes of memory that the payload needs
}

// loadOf is the load of a cell.
func (q *Question) loadOf(c study.Cell) load {
	job := q.Job(c)
	l := load{instances: int64(c.Copies), starting: int64(c.Copies), hold: job.Hold, payload: job.Memory}
	if c.Concurrency > 0 {
		l.starting = min(l.starting, int64(c.Concurrency))
	}
	l.alive = l.starting
	if l.hold {
		l.alive = l.instances
	}
	t := q.Targets[c.Target]
	if on, placed := driver.As[*netpath.Driver](t.Driver); placed {
		n := int64(on.Others(NetworkOf(c.Limits.Network)))
		l.hold = l.hold || n > 0
		l.instances, l.alive, l.starting = l.instances+n, l.alive+n, l.starting+min(n, int64(t.Driver.Properties().MaxParallel))
	}
	l.footprint = t.Driver.Properties().Footprint
	if t.Facts.Notes[driver.NoteUnread] != "" {
		l.footprint.DaemonFiles = 0 // its daemon's limit is not tare's
	}
	return l
}

// need is how much of a capacity a load takes, with the sum.
func (l load) need(c Capacity) (need int64, sum string) {
	of := costs[c.Of]
	each := of.each
	if l.hold && of.held > 0 {
		each = of.held
	}
	addEach, addAlive := of.adds(l.footprint, l.payload)
	var parts []string
	for _, p := range []struct {
		number, takes int64
		what          string
	}{{1, c.InUse, ""}, {l.instances, each + addEach, ""}, {l.alive, addAlive, " alive"}, {l.starting, of.starting, " under way"}} {
		if p.takes == 0 {
			continue
		}
		need += p.number * p.takes
		part := of.show(p.takes)
		if len(parts) > 0 || c.InUse == 0 {
			part = fmt.Sprintf("%d%s x %s", p.number, p.what, part)
		}
		parts = append(parts, part)
	}
	return need, strings.Join(parts, " + ")
}

// capacity skips the levels of held instances that exceed what the machine has, with
// the sum. Instances that are not held, and those that were asked for by their
// number, are refused.
func capacity(_ context.Context, q *Question) ([]Outcome, error) {
	if len(q.Cells) == 0 {
		return nil, nil
	}
	machine, err := q.Machine.Capacities()
	if err != nil {
		return nil, err
	}
	var all []Outcome
	for _, c := range q.Cells {
		reason := q.noRoom(c, machine)
		switch {
		case reason == nil:
		case q.Exact || !q.Job(c).Hold:
			return refuse(reason), nil
		default:
			all = append(all, Outcome{Skip, c.ID, reason})
		}
	}
	if reason := q.noRoomInRounds(machine); reason != nil {
		return refuse(reason), nil
	}
	return all, nil
}

// noRoomInRounds names the first capacity that the cells of a set exceed together: in
// rounds the instances of all targets are alive at once, those of the twin besides.
func (q *Question) noRoomInRounds(machine []Capacity) error {
	type group struct {
		target         string
		twin           bool
		level, program string
	}
	var sets []string
	groups := map[string]map[group]study.Cell{}
	for _, c := range q.Cells {
		if c.Set == "" {
			continue
		}
		if groups[c.Set] == nil {
			groups[c.Set] = map[group]study.Cell{}
			sets = append(sets, c.Set)
		}
		of := group{c.Target, c.AA, strings.TrimPrefix(c.Group, c.Workload), strings.Join(q.Job(c).Args, " ")}
		groups[c.Set][of] = c
	}
	for _, set := range sets {
		for _, m := range machine {
			need, instances := m.InUse, 0
			targets := map[string]bool{}
			for of, c := range groups[set] {
				targets[fmt.Sprint(of.target, of.twin)] = true
				each, _ := q.loadOf(c).need(m)
				need, instances = need+each-m.InUse, instances+c.Copies
			}
			if of := costs[m.Of]; need > m.Value {
				return fmt.Errorf("%d instances of %d targets are alive at once in rounds and need about %s %s, and %s is %s; name fewer targets with --on, run fewer instances, or raise it",
					instances, len(targets), of.show(need), of.what(m.InUse), m.Name, of.show(m.Value))
			}
		}
	}
	return nil
}

// noRoom names the first capacity that a cell's instances exceed; nil for none.
func (q *Question) noRoom(c study.Cell, machine []Capacity) error {
	l := q.loadOf(c)
	for _, m := range machine {
		if need, sum := l.need(m); need > m.Value {
			of := costs[m.Of]
			return fmt.Errorf("cell %s cannot run here: %d instances, %d under way at once, need about %s %s (%s), and %s is %s; run fewer instances, or raise it",
				c.ID, l.instances, l.starting, of.show(need), of.what(m.InUse), sum, m.Name, of.show(m.Value))
		}
	}
	if ports := q.Targets[c.Target].Driver.Properties().Ports; ports > 0 && l.alive > int64(ports) {
		return fmt.Errorf("cell %s cannot run here: %d instances alive at once need a port each, and the network of %s has %d; run fewer instances", c.ID, l.alive, c.Target, ports)
	}
	return nil
}

// requiredTargets refuses a run in which a target that must run has no level left,
// because the machine has no room for any.
func requiredTargets(_ context.Context, q *Question) ([]Outcome, error) {
	for _, s := range q.skippedBy(nameCapacity) {
		measured := slices.ContainsFunc(q.Cells, func(c study.Cell) bool { return c.Target == s.cell.Target })
		if !measured && !slices.Contains(q.Study.Optional, s.cell.Target) {
			return refuse(s.reason), nil
		}
	}
	return nil, nil
}

// memoryLimits notes instances that may take more memory than there is: a limit is
// not a need.
func memoryLimits(_ context.Context, q *Question) ([]Outcome, error) {
	if !slices.ContainsFunc(q.Cells, func(c study.Cell) bool { return c.Limits.Memory > 0 }) {
		return nil, nil
	}
	machine, err := q.Machine.Capacities()
	if err != nil {
		return nil, err
	}
	available := int64(math.MaxInt64)
	for _, m := range machine {
		if m.Of == Memory {
			available = min(available, m.Value)
		}
	}
	var all []Outcome
	for _, c := range q.Cells {
		if most := float64(c.Copies) * float64(c.Limits.Memory); most > float64(available) && !c.AA && !q.many(c) {
			all = append(all, Outcome{Note, c.ID, fmt.Errorf("cell %s: %d instances may use %s each, %s in total, and %s is available: the machine may swap or kill processes",
				c.ID, c.Copies, showBytes(c.Limits.Memory), units.BytesSize(most), showBytes(available))})
		}
	}
	return all, nil
}
