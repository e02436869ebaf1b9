package containers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/sys"
)

// A Point is what one container used during one interval. A rate that is not
// known is -1.
type Point struct {
	At       float64 `json:"at"` // seconds since the watch began
	ID       string  `json:"id"`
	Name     string  `json:"name"`
	Engine   string  `json:"engine"`
	CPU      float64 `json:"cpu"`      // CPUs: 1 is one CPU all the time
	Memory   int64   `json:"memory"`   // bytes
	Read     float64 `json:"read"`     // bytes a second, as the three below
	Written  float64 `json:"written"`  //
	Received float64 `json:"received"` //
	Sent     float64 `json:"sent"`     //
	Tasks    int64   `json:"tasks"`    // processes and threads
	Runnable int64   `json:"runnable"` // of the processes: the container's load at this moment
	Total    Use     `json:"-"`        // since the container started, where the others are of the interval
}

// A Watch reads all containers again and again.
type Watch struct {
	trees   sys.Hierarchies
	began   time.Duration
	before  map[string]reading
	found   []*Container
	looked  time.Duration
	machine machine
	kernel  *kernelLog
	kills   map[string]kills
}

type reading struct {
	container Container
	at        time.Duration
	use       Use
}

// lookEvery is how often new containers are looked for: walking all groups
// costs more than reading the known ones.
const lookEvery = 2 * time.Second

// New begins a watch. Close ends it.
func New() (*Watch, error) {
	trees, err := sys.Cgroups()
	if err != nil {
		return nil, err
	}
	hostNet, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("watch containers: %w", err)
	}
	return &Watch{trees: trees, began: now(), looked: -lookEvery, kernel: openKernelLog(), kills: map[string]kills{},
		machine: machine{network: hostNet, blocks: countsBlocks(trees), files: newFiles()}}, nil
}

// Close closes the files that the watch keeps open.
func (w *Watch) Close() {
	w.kernel.close()
	w.machine.files.closeAll()
}

// now is CLOCK_MONOTONIC.
func now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every Linux has this clock
	}
	return time.Duration(t.Nano())
}

// Read gives a point for each container that has been there since the last reading, in
// the order of their names, and what has happened since then. The first reading gives
// neither.
func (w *Watch) Read() ([]Point, []Event, error) {
	at := now()
	if err := w.look(at); err != nil {
		return nil, nil, err
	}
	var out []Point
	next := map[string]reading{}
	for _, c := range slices.Clone(w.found) {
		use, err := c.read(&w.machine)
		if errors.Is(err, fs.ErrNotExist) { // until it is found again: another may take its path
			w.found = slices.DeleteFunc(w.found, func(o *Container) bool { return o == c })
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("watch %s: %w", c.Name, err)
		}
		r := reading{*c, now(), use}
		next[c.ID] = r
		if before, known := w.before[c.ID]; known && before.container.group == c.group {
			out = append(out, c.point(before, r, w.began))
		}
	}
	events := w.eventsOf(w.before, next, (at - w.began).Seconds())
	w.before = next
	w.machine.files.next()
	return out, events, nil
}

// look finds the containers that run, where the last look is not of just now.
func (w *Watch) look(at time.Duration) error {
	if at-w.looked < lookEvery {
		return nil
	}
	known := map[string]*Container{}
	for _, c := range w.found {
		known[c.Path] = c
	}
	found, err := w.machine.files.find(w.trees, known)
	if err != nil {
		return err
	}
	w.found, w.looked = found, at
	return nil
}

// point is the difference of two readings.
func (c *Container) point(before, after reading, began time.Duration) Point {
	seconds := (after.at - before.at).Seconds()
	rate := func(from, to int64) float64 {
		if from < 0 || to < 0 || to < from || seconds <= 0 {
			return -1
		}
		return float64(to-from) / seconds
	}
	p := Point{
		At: (after.at - began).Seconds(), ID: c.ID, Name: c.Name, Engine: c.Engine,
		CPU: rate(int64(before.use.CPU), int64(after.use.CPU)), Memory: after.use.Memory,
		Read: rate(before.use.Read, after.use.Read), Written: rate(before.use.Written, after.use.Written),
		Received: rate(before.use.Received, after.use.Received), Sent: rate(before.use.Sent, after.use.Sent),
		Tasks: after.use.Tasks, Runnable: after.use.Runnable, Total: after.use,
	}
	if p.CPU > 0 {
		p.CPU /= 1e9
	}
	return p
}
