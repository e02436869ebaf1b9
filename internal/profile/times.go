package profile

import (
	"slices"
	"time"
)

// TimeRow is one function, or one lock, with the time that threads spent there.
type TimeRow struct {
	State  State   `json:"state"`
	Name   string  `json:"name"`             // of the function; of the lock where it waits for one
	Lock   bool    `json:"lock,omitempty"`   // Name is a lock's, inferred
	Kernel bool    `json:"kernel,omitempty"` // kernel threads, for whomever
	Shared bool    `json:"shared,omitempty"` // an engine that others may use too
	Count  uint64  `json:"count"`            // samples on a CPU; times off it
	Total  float64 `json:"total"`            // seconds, summed over threads
	Of     []Part  `json:"of"`               // by thread's name, the longest first
}

// Part is a share of a row.
type Part struct {
	Name  string  `json:"name"`
	Total float64 `json:"total"` // seconds
}

// StateTotal is the time that the trial's own threads spent in a state, seconds.
func (p Profile) StateTotal(s State) float64 {
	var sum time.Duration
	for _, x := range p.Samples {
		if x.State == s && !x.Kernel && !x.Shared {
			sum += x.Total
		}
	}
	return sum.Seconds()
}

// Times sums up a profile's samples by state and innermost function, the longest
// first. Off the CPU the functions of the scheduler and of locks do not count:
// what called them does.
func (p Profile) Times() []TimeRow {
	type id struct {
		state  State
		name   string
		kernel bool
		shared bool
	}
	at := map[id]int{}
	var rows []TimeRow
	for _, s := range p.Samples {
		name, lock := p.place(s)
		key := id{s.State, name, s.Kernel, s.Shared}
		i, known := at[key]
		if !known {
			i = len(rows)
			at[key] = i
			rows = append(rows, TimeRow{State: s.State, Name: name, Lock: lock, Kernel: s.Kernel, Shared: s.Shared})
		}
		r := &rows[i]
		r.Count += s.Count
		r.Total += s.Total.Seconds()
		r.addPart(s)
	}
	byTotal(rows, func(r TimeRow) float64 { return r.Total }, func(r TimeRow) string { return r.Name + string(r.State) })
	for i := range rows {
		byTotal(rows[i].Of, func(p Part) float64 { return p.Total }, func(p Part) string { return p.Name })
	}
	return rows
}

func (r *TimeRow) addPart(s Sample) {
	i := slices.IndexFunc(r.Of, func(p Part) bool { return p.Name == s.Comm })
	if i < 0 {
		i = len(r.Of)
		r.Of = append(r.Of, Part{Name: s.Comm})
	}
	r.Of[i].Total += s.Total.Seconds()
}

// preempted is the place of threads whose CPU was taken: where they were is chance.
const preempted = "preempted"

// place is the function that a sample belongs to, or the lock.
func (p Profile) place(s Sample) (name string, lock bool) {
	kernel, user := p.frames(s.Stack), p.frames(s.User)
	switch s.State {
	case Runnable:
		return preempted, false
	case OnCPU:
		switch {
		case len(kernel) > 0:
			return kernel[0], false
		case len(user) > 0:
			return user[0], false
		}
		return other, false
	}
	if kind := waitKind(kernel, blockers); kind != "" {
		if name := infer(kind, kernel); name != "" {
			return name, true
		}
	}
	if f := taker(kernel); f != "" {
		if p.Hidden {
			f = hiddenPlace
		}
		return f, false
	}
	return other, false
}
