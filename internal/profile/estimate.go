package profile

import (
	"maps"
	"slices"
	"strings"
)

// A blocker is the beginning of names of functions in which threads wait for a
// lock of a kind.
type blocker struct {
	prefix string
	kind   Kind
}

// blockers are where threads sleep for a lock, spinners where they wait for one
// on their CPU (kernel/locking/ of Linux 4.19 to 6.18).
var (
	blockers = []blocker{
		{"__mutex_lock", Mutex}, {"mutex_lock", Mutex}, {"__ww_mutex_lock", Mutex}, {"ww_mutex_lock", Mutex},
		{"rwsem_down_", RWSem}, {"__rwsem_down_", RWSem}, {"call_rwsem_down_", RWSem}, {"down_read", RWSem}, {"down_write", RWSem},
		{"percpu_rwsem_wait", PercpuRWSem}, {"__percpu_down_read", PercpuRWSem}, {"percpu_down_", PercpuRWSem},
		{"rt_mutex_", RTMutex}, {"__rt_mutex_", RTMutex},
	}
	spinners = []blocker{
		{"mutex_spin_on_owner", Mutex}, {"rwsem_spin_on_owner", RWSem}, {"rwsem_optimistic_spin", RWSem},
		{"queued_spin_lock_slowpath", Spinlock}, {"native_queued_spin_lock_slowpath", Spinlock}, {"__pv_queued_spin_lock_slowpath", Spinlock},
		{"queued_read_lock_slowpath", RWLock}, {"queued_write_lock_slowpath", RWLock},
	}
)

// queue is where waiters for a mutex or rwsem spin behind each other; its caller
// tells which.
const queue = "osq_lock"

// waitKind is the kind of lock that a stack waits for in one of the functions;
// "" for none. A wait's own code is innermost.
func waitKind(frames []string, in []blocker) Kind {
	queued := false
	for _, f := range frames {
		name := plain(f)
		if queued = queued || name == queue; queued {
			in = slices.Concat(spinners, blockers)
		}
		for _, b := range in {
			if strings.HasPrefix(name, b.prefix) {
				return b.kind
			}
		}
		if !isOwnCode(name) {
			return ""
		}
	}
	return ""
}

// Estimate makes a lock profile of one of stacks, for kernels that do not tell
// of waits themselves: threads that sleep in a lock's code wait for it, and so do
// those that are sampled where it spins. A wait that does neither is not seen,
// and one that sleeps several times counts as often.
//
// why says why they are not measured.
func (p Profile) Estimate(why string) Profile {
	e := Profile{Elapsed: p.Elapsed, Stacks: p.Stacks, Lost: maps.Clone(p.Lost), Cost: p.Cost, Notes: slices.Clone(p.Notes), Hidden: p.Hidden, Source: p.Source, Unit: p.Unit, Way: p.Way.estimate()}
	e.Notes = append(e.Notes, "an estimate, from sampled stacks and sleeps in the code of locks: "+why)
	for _, s := range p.Samples {
		w := Wait{Stack: s.Stack, Kernel: s.Kernel, Shared: s.Shared, Count: s.Count, Total: s.Total}
		switch s.State {
		case OnCPU:
			w.Kind = waitKind(p.frames(s.Stack), spinners)
		case Asleep:
			if w.Kind = waitKind(p.frames(s.Stack), blockers); w.Kind == "" && infer(Sleep, p.frames(s.Stack)) != "" {
				w.Kind = Sleep
			}
		}
		if w.Kind != "" {
			e.Waits = append(e.Waits, w)
		}
	}
	return e
}
