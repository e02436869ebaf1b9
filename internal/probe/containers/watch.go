package containers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
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
}

// A Watch reads all containers again and again.
type Watch struct {
	trees   sys.Hierarchies
	began   time.Duration
	before  map[string]reading
	found   []Container
	looked  time.Duration
	machine machine
}

type reading struct {
	at  time.Duration
	use Use
}

// lookEvery is how often new containers are looked for: walking all groups
// costs more than reading the known ones.
const lookEvery = 2 * time.Second

// New begins a watch.
func New() (*Watch, error) {
	trees, err := sys.Cgroups()
	if err != nil {
		return nil, err
	}
	hostNet, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("watch containers: %w", err)
	}
	return &Watch{trees: trees, began: now(), before: map[string]reading{}, looked: -lookEvery,
		machine: machine{network: hostNet, blocks: countsBlocks(trees), files: newFiles()}}, nil
}

// now is CLOCK_MONOTONIC.
func now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every Linux has this clock
	}
	return time.Duration(t.Nano())
}

// Read gives a point for each container that has been there since the last
// reading, in the order of Find. The first reading gives none.
func (w *Watch) Read() ([]Point, error) {
	at := now()
	if at-w.looked >= lookEvery {
		known := map[string]Container{}
		for _, c := range w.found {
			known[c.Path] = c
		}
		found, err := w.machine.files.find(w.trees, known)
		if err != nil {
			return nil, err
		}
		w.found, w.looked = found, at
	}
	var out []Point
	next := map[string]reading{}
	for i := range w.found {
		c := &w.found[i]
		use, err := c.read(&w.machine)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", c.Name, err)
		}
		r := reading{now(), use}
		next[c.ID] = r
		if before, known := w.before[c.ID]; known {
			out = append(out, c.point(before, r, w.began))
		}
	}
	w.before = next
	w.machine.files.next()
	return out, nil
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
		Tasks: after.use.Tasks, Runnable: after.use.Runnable,
	}
	if p.CPU > 0 {
		p.CPU /= 1e9
	}
	return p
}
