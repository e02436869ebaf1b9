// Package board serves what a watch of containers reads: as OpenMetrics, and as a page
// that updates itself. It answers questions and takes no orders.
package board

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/tarelab/tare/internal/probe/containers"
)

// About is what a page says of the watch.
type About struct {
	Host     string        // the machine's name
	CPUs     int           // that it has
	Interval time.Duration // between two readings
	Began    time.Time     // the watch
}

// What a board remembers at most. OpenMetrics has all containers of the last reading.
const (
	roundsMost = 150 // readings
	pointsMost = 300 // containers of one reading, those that use most CPU time
	eventsMost = 200
)

// Board holds the last readings of a watch. It is safe for use by several goroutines.
type Board struct {
	about   About
	mu      sync.Mutex
	latest  []containers.Point
	rounds  []round
	events  []containers.Event
	counted map[containers.EventKind]int64
}

// round is one reading, for the page.
type round struct {
	At     float64            `json:"at"` // seconds since the watch began
	Points []containers.Point `json:"points"`
	Hidden int                `json:"hidden"` // containers above pointsMost
}

// New makes a board without readings.
func New(about About) *Board {
	return &Board{about: about, counted: map[containers.EventKind]int64{}}
}

// Add takes a reading of so long after the watch began. It keeps both slices.
func (b *Board) Add(at time.Duration, points []containers.Point, events []containers.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.latest = points
	b.rounds = last(roundsMost, append(b.rounds, busiest(at, points)))
	b.events = last(eventsMost, append(b.events, events...))
	for _, e := range events {
		b.counted[e.Event] += max(e.Killed, 1)
	}
}

// busiest is the reading of the containers that use most CPU time, in the order given.
func busiest(at time.Duration, points []containers.Point) round {
	if len(points) <= pointsMost {
		return round{At: at.Seconds(), Points: append([]containers.Point{}, points...)} // never null in JSON
	}
	order := slices.SortedStableFunc(slices.Values(points), func(x, y containers.Point) int { return cmp.Compare(y.CPU, x.CPU) })
	least := order[pointsMost-1].CPU
	shown := slices.DeleteFunc(slices.Clone(points), func(p containers.Point) bool { return p.CPU < least })
	shown = shown[:min(len(shown), pointsMost)]
	return round{At: at.Seconds(), Points: shown, Hidden: len(points) - len(shown)}
}

// last is the end of a list, in memory of its own once it has grown.
func last[T any](most int, list []T) []T {
	if len(list) <= most {
		return list
	}
	return append(make([]T, 0, 2*most), list[len(list)-most:]...)
}

// state is what the page asks for again and again.
type state struct {
	Host     string             `json:"host"`
	CPUs     int                `json:"cpus"`
	Interval float64            `json:"interval"` // seconds
	Began    int64              `json:"began"`    // milliseconds since 1970
	Rounds   []round            `json:"rounds"`   // after the time that was asked for
	Events   []containers.Event `json:"events"`
}

// after is the state with the readings that came after a time since the watch began.
func (b *Board) after(at float64) state {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := state{Host: b.about.Host, CPUs: b.about.CPUs, Interval: b.about.Interval.Seconds(), Began: b.about.Began.UnixMilli(), Rounds: []round{}, Events: append([]containers.Event{}, b.events...)}
	for _, r := range b.rounds {
		if r.At > at {
			s.Rounds = append(s.Rounds, r)
		}
	}
	return s
}
