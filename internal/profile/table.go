package profile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Row is one lock, or one reason to sleep, with all waits for it.
type Row struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	// Inferred: the name is not the kernel's word but follows from the function
	// that waits, or from another function that waits at the same address.
	Inferred bool    `json:"inferred,omitempty"`
	Locks    int     `json:"locks"`            // how many locks of this name: addresses
	Kernel   bool    `json:"kernel,omitempty"` // waits of kernel threads, for whomever
	Shared   bool    `json:"shared,omitempty"` // waits of an engine that others may use too
	Waits    uint64  `json:"waits"`
	Total    float64 `json:"total"`  // seconds, summed over threads
	P99      float64 `json:"p99"`    // seconds; 0 below 100 waits
	Most     float64 `json:"most"`   // seconds
	Places   []Place `json:"places"` // the longest first
	// Unfinished are those of Waits that had not ended with the trial: their time is
	// that until then.
	Unfinished uint64 `json:"unfinished,omitempty"`
}

// Place is a function that waits for a row's lock.
type Place struct {
	Function string   `json:"function"` // the innermost that is not the lock's own
	Path     []string `json:"path"`     // from there outwards, of its longest stack
	Waits    uint64   `json:"waits"`
	Total    float64  `json:"total"` // seconds
}

// other is the row of waits whose stack and lock were not kept.
const other = "other"

// quantileFrom is how many waits a p99 takes.
const quantileFrom = 100

// Table sums up a profile's waits by lock, the longest first. Waits of kernel
// threads stand in rows of their own.
func (p Profile) Table() []Row {
	type id struct {
		name   string
		kind   Kind
		kernel bool
		shared bool
	}
	type sum struct {
		Row
		times  Histogram
		locks  map[uint64]bool
		places map[string]*place
	}
	names := p.names()
	rows := map[id]*sum{}
	for i, w := range p.Waits {
		key := id{names[i].lock, w.Kind, w.Kernel, w.Shared}
		r := rows[key]
		if r == nil {
			r = &sum{Row: Row{Name: key.name, Kind: key.kind, Kernel: key.kernel, Shared: key.shared, Inferred: names[i].inferred},
				locks: map[uint64]bool{}, places: map[string]*place{}}
			rows[key] = r
		}
		r.Waits += w.Count
		r.Unfinished += w.Unfinished
		r.Total += w.Total.Seconds()
		r.Most = max(r.Most, w.Most.Seconds())
		r.times.Add(w.Times)
		if w.Lock != 0 {
			r.locks[w.Lock] = true
		}
		p.addPlace(r.places, w)
	}
	var out []Row
	for _, r := range rows {
		r.Locks = len(r.locks)
		if r.Waits >= quantileFrom {
			r.P99 = min(r.times.Quantile(0.99).Seconds(), r.Most)
		}
		r.Places = sorted(r.places)
		out = append(out, r.Row)
	}
	byTotal(out, func(r Row) float64 { return r.Total }, func(r Row) string { return r.Name + string(r.Kind) })
	return out
}

// place is a Place under way; path is of the longest stack so far.
type place struct {
	Place
	longest time.Duration
}

// hiddenPlace is where a wait was whose stack is of addresses: the innermost are
// the probe's own, and nobody can tell which.
const hiddenPlace = "(names hidden)"

func (p Profile) addPlace(places map[string]*place, w Wait) {
	frames := p.frames(w.Stack)
	function := taker(frames)
	switch {
	case function == "":
		function = "(stack lost)"
	case p.Hidden:
		function = hiddenPlace
	}
	at := places[function]
	if at == nil {
		at = &place{Place: Place{Function: function}}
		places[function] = at
	}
	at.Waits += w.Count
	at.Total += w.Total.Seconds()
	if w.Total >= at.longest {
		at.longest, at.Path = w.Total, outwards(frames)
	}
}

// outwards is a stack without the lock's own code.
func outwards(frames []string) []string {
	for i, f := range frames {
		if !isOwnCode(plain(f)) {
			return frames[i:]
		}
	}
	return nil
}

func sorted(places map[string]*place) []Place {
	var out []Place
	for _, p := range places {
		out = append(out, p.Place)
	}
	byTotal(out, func(p Place) float64 { return p.Total }, func(p Place) string { return p.Function })
	return out
}

// named is what a wait was for.
type named struct {
	lock     string
	inferred bool
}

// address is one lock: at an address that was used again may be one of another kind.
type address struct {
	lock uint64
	kind Kind
}

// names names what each wait was for. Where the code that waits is no clue,
// another stack that waits at the same address may be one: a lock has one
// address, whoever takes it.
func (p Profile) names() []named {
	out := make([]named, len(p.Waits))
	votes := map[address]map[string]time.Duration{}
	for i, w := range p.Waits {
		out[i] = p.nameOne(w)
		at := address{w.Lock, w.Kind}
		if w.Lock != 0 && out[i].lock != "" {
			if votes[at] == nil {
				votes[at] = map[string]time.Duration{}
			}
			votes[at][out[i].lock] += w.Total + 1
		}
	}
	for i, w := range p.Waits {
		if w.Name != "" {
			continue // Sum has asked its trial
		}
		if best := longest(votes[address{w.Lock, w.Kind}]); best != "" && w.Lock != 0 && w.Symbol == "" {
			out[i] = named{best, true}
		}
		if out[i].lock == "" {
			out[i] = p.unknown(w)
		}
	}
	return out
}

func (p Profile) nameOne(w Wait) named {
	switch {
	case w.Name != "":
		return named{w.Name, w.Inferred}
	case w.Symbol != "":
		return named{w.Symbol, false}
	case w.Lock == 0 && w.Stack < 0 && w.Kind != Sleep:
		return named{other, false}
	}
	return named{infer(w.Kind, p.frames(w.Stack)), true}
}

// unknown names a wait by its place.
func (p Profile) unknown(w Wait) named {
	switch {
	case p.Hidden && w.Lock != 0:
		return named{fmt.Sprintf("lock at 0x%x", w.Lock), false}
	case p.Hidden && w.Kind == Sleep:
		return named{"uninterruptible sleep", false}
	}
	if f := taker(p.frames(w.Stack)); f != "" {
		return named{"in " + f, true}
	}
	return named{other, false}
}

func longest(votes map[string]time.Duration) string {
	names := slices.SortedFunc(maps.Keys(votes), func(a, b string) int {
		return cmp.Or(cmp.Compare(votes[b], votes[a]), cmp.Compare(a, b))
	})
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// Names of locks that studies ask for.
const (
	Directory   = "i_rwsem of a directory"
	CgroupMutex = "cgroup_mutex"
	VFork       = "vfork: until the child executes" // the child's own waits pass meanwhile
)

// LockShare is the share of the trial's own lock waits
// that lie within a function and are for a lock, "" for any.
func (p Profile) LockShare(within, lock string) float64 {
	var all, part time.Duration
	names := p.names()
	for i, w := range p.Waits {
		if w.Kernel || w.Shared || w.Kind == Sleep {
			continue
		}
		all += w.Total
		inside := slices.ContainsFunc(p.frames(w.Stack), func(f string) bool { return plain(f) == within })
		if inside && (lock == "" || names[i].lock == lock) {
			part += w.Total
		}
	}
	if all == 0 {
		return 0
	}
	return float64(part) / float64(all)
}
