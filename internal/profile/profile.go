// Package profile is what the kernel did for a trial: who waited for which lock
// and where, and what ran or slept on which stack. It names locks, sums up and
// writes the formats that other tools read. It is pure: package probe/ebpf
// fills profiles in.
package profile

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Kind is what a task waited for.
type Kind string

// The kinds of wait: the kernel's kinds of lock, and uninterruptible sleep that
// is no lock's.
const (
	Mutex       Kind = "mutex"
	RWSem       Kind = "rwsem"
	PercpuRWSem Kind = "percpu-rwsem"
	Spinlock    Kind = "spinlock"
	RWLock      Kind = "rwlock"
	RTMutex     Kind = "rt-mutex"
	OtherLock   Kind = "lock"
	Sleep       Kind = "sleep"
)

// WaitFlags are how the kernel says that a lock is waited for, in the tracepoint
// contention_begin (LCB_F_ in include/trace/events/lock.h).
type WaitFlags uint32

// The kernel's flags.
const (
	WaitSpin WaitFlags = 1 << iota
	WaitRead
	WaitWrite
	WaitRT
	WaitPercpu
	WaitMutex
)

// flagWords are the flags as the kernel prints them.
var flagWords = map[string]WaitFlags{"SPIN": WaitSpin, "READ": WaitRead, "WRITE": WaitWrite, "RT": WaitRT, "PERCPU": WaitPercpu, "MUTEX": WaitMutex}

// Kind is the kind of lock, with the mode of those that have two.
func (f WaitFlags) Kind() (kind Kind, mode string) {
	switch {
	case f&WaitRead != 0:
		mode = "read"
	case f&WaitWrite != 0:
		mode = "write"
	}
	switch {
	case f&WaitMutex != 0:
		return Mutex, mode
	case f&WaitPercpu != 0:
		return PercpuRWSem, mode
	case f&WaitRT != 0:
		return RTMutex, mode
	case f&WaitSpin != 0 && mode != "":
		return RWLock, mode
	case f&WaitSpin != 0:
		return Spinlock, mode
	case mode != "":
		return RWSem, mode
	}
	return OtherLock, mode
}

// A Wait sums up the waits for one lock, in one way, on one stack.
type Wait struct {
	Kind   Kind   `json:"kind"`
	Mode   string `json:"mode,omitempty"`   // "read" or "write" where the kind has both
	Lock   uint64 `json:"lock,omitempty"`   // its address; 0 for sleep
	Symbol string `json:"symbol,omitempty"` // of the address, where the kernel tells; "mmap_lock" of the task's own
	// Name is what Sum found the wait to be for, and Inferred that it is not the
	// kernel's word; "" of a wait as it was recorded.
	Name     string        `json:"name,omitempty"`
	Inferred bool          `json:"inferred,omitempty"`
	Stack    int           `json:"stack"`            // index into Profile.Stacks; -1 where it was lost
	Kernel   bool          `json:"kernel,omitempty"` // a kernel thread waited, for whomever
	Shared   bool          `json:"shared,omitempty"` // a thread of an engine that others may use too
	Count    uint64        `json:"count"`
	Total    time.Duration `json:"total"`
	Most     time.Duration `json:"most"` // the longest
	Times    Histogram     `json:"times"`
	// Unfinished are those of Count that had not ended with the recording: their
	// time is that until then.
	Unfinished uint64 `json:"unfinished,omitempty"`
}

// State is what a thread does.
type State string

// The states of a thread.
const (
	OnCPU    State = "on CPU"
	Asleep   State = "asleep"
	Runnable State = "waiting for a CPU"
)

// States are all states, in the order of reports.
func States() []State { return []State{OnCPU, Asleep, Runnable} }

// A Sample sums up what was seen on one stack. On a CPU, Count is the number of
// samples and Total the share of the time that threads ran, which is exact; off
// it, both are exact.
type Sample struct {
	State  State         `json:"state"`
	Stack  int           `json:"stack"` // kernel's, index into Profile.Stacks; -1 for none
	User   int           `json:"user"`  // the program's, the same
	Comm   string        `json:"comm"`  // the thread's name
	Kernel bool          `json:"kernel,omitempty"`
	Shared bool          `json:"shared,omitempty"`
	Count  uint64        `json:"count"`
	Total  time.Duration `json:"total"`
}

// LongestName is what the name of a function has at most, in bytes: a longer one is cut.
const LongestName = 1 << 10

func cut(name string) string {
	if len(name) <= LongestName {
		return name
	}
	return strings.ToValidUTF8(name[:LongestName], "")
}

// Profile is what one probe saw in one trial.
type Profile struct {
	Elapsed time.Duration     `json:"elapsed"` // how long the probe was armed
	Waits   []Wait            `json:"waits,omitempty"`
	Samples []Sample          `json:"samples,omitempty"`
	Stacks  [][]string        `json:"stacks"` // functions, innermost first
	Lost    map[string]uint64 `json:"lost,omitempty"`
	Notes   []string          `json:"notes,omitempty"`
	Cost    time.Duration     `json:"cost"` // CPU time of the probe's own programs in the kernel
	// Way is how it was measured.
	Way Way `json:"way,omitempty"`
	// Hidden: the kernel told no names, and the functions of Stacks are addresses.
	Hidden bool `json:"hidden,omitempty"`
	// Source is what an imported profile was read from, "" for one that a probe took.
	Source string `json:"source,omitempty"`
	// Unit is what each nanosecond of a Total stands for in an imported profile whose
	// samples are not of a clock: the event, such as "cycles"; "" for time.
	Unit string `json:"unit,omitempty"`
}

// Sum adds up profiles, one at a time. What a wait was for is found within its trial: at
// the same address of another one may be another lock.
type Sum struct {
	p       Profile
	stacks  interner
	waits   map[Wait]int
	samples map[Sample]int
	trials  int
}

// NewSum is a sum without a profile.
func NewSum() *Sum {
	s := &Sum{p: Profile{Lost: map[string]uint64{}}, waits: map[Wait]int{}, samples: map[Sample]int{}}
	s.stacks = newInterner(&s.p.Stacks)
	return s
}

// Add adds the profile of one trial.
func (s *Sum) Add(p Profile) {
	m := &s.p
	s.trials++
	m.Elapsed += p.Elapsed
	m.Hidden = m.Hidden || p.Hidden
	m.Source, m.Unit, m.Way = p.Source, p.Unit, p.Way // an imported one is alone in its cell
	m.Cost += p.Cost
	for what, n := range p.Lost {
		m.Lost[s.stacks.name(what)] += n
	}
	for _, note := range p.Notes {
		m.Notes = append(m.Notes, s.stacks.name(note))
	}
	slices.Sort(m.Notes)
	m.Notes = slices.Compact(m.Notes)
	names := p.names()
	for i, w := range p.Waits {
		w.Name, w.Inferred = s.stacks.name(names[i].lock), names[i].inferred
		w.Kind, w.Mode, w.Symbol = Kind(s.stacks.name(string(w.Kind))), s.stacks.name(w.Mode), s.stacks.name(w.Symbol)
		m.addWait(s.waits, w, s.stacks.of(p, w.Stack))
	}
	for _, one := range p.Samples {
		one.State, one.Comm = State(s.stacks.name(string(one.State))), s.stacks.name(one.Comm)
		one.Stack, one.User = s.stacks.of(p, one.Stack), s.stacks.of(p, one.User)
		m.addSample(s.samples, one)
	}
}

// Trials is how many profiles were added.
func (s *Sum) Trials() int { return s.trials }

// Profile is the sum so far. It shares memory with s.
func (s *Sum) Profile() Profile { return s.p }

// Items is what the sum counts against limit.RunProfiles.
func (s *Sum) Items() int { return len(s.p.Stacks) + len(s.p.Samples) + itemsOfWait*len(s.p.Waits) }

// Bytes is what the stacks and the names of the sum take, which counts against
// limit.RunProfiles, too.
func (s *Sum) Bytes() int64 { return s.stacks.bytes }

// itemsOfWait is for how many stacks or samples the memory of one wait would do.
const itemsOfWait = 8

func (p *Profile) addWait(seen map[Wait]int, w Wait, stack int) {
	w.Stack = stack
	key := w
	key.Count, key.Total, key.Most, key.Times, key.Unfinished = 0, 0, 0, Histogram{}, 0
	at, known := seen[key]
	if !known {
		seen[key] = len(p.Waits)
		p.Waits = append(p.Waits, w)
		return
	}
	sum := &p.Waits[at]
	sum.Count += w.Count
	sum.Total += w.Total
	sum.Most = max(sum.Most, w.Most)
	sum.Times.Add(w.Times)
	sum.Unfinished += w.Unfinished
}

func (p *Profile) addSample(seen map[Sample]int, s Sample) {
	key := s
	key.Count, key.Total = 0, 0
	at, known := seen[key]
	if !known {
		seen[key] = len(p.Samples)
		p.Samples = append(p.Samples, s)
		return
	}
	p.Samples[at].Count += s.Count
	p.Samples[at].Total += s.Total
}

// interner keeps each stack once, and each name.
type interner struct {
	at     map[string]int
	stacks *[][]string
	names  map[string]string
	bytes  int64 // that it keeps
}

func newInterner(stacks *[][]string) interner {
	return interner{at: map[string]int{}, stacks: stacks, names: map[string]string{}}
}

// stringHeader is what a string takes besides its text.
const stringHeader = 16

// name is a copy of a name, which may be part of a long line; the same one each time.
func (i *interner) name(name string) string {
	kept, known := i.names[name]
	if !known {
		kept = strings.Clone(name)
		i.names[kept] = kept
		i.bytes += int64(len(kept) + 2*stringHeader)
	}
	return kept
}

// of is the index of another profile's stack; -1 stays -1.
func (i *interner) of(p Profile, stack int) int {
	if stack < 0 || stack >= len(p.Stacks) {
		return -1
	}
	return i.keep(p.Stacks[stack])
}

// keep is the index of a stack, which is added where it is new.
func (i *interner) keep(stack []string) int {
	key := joined(stack)
	at, known := i.at[key]
	if !known {
		frames := make([]string, len(stack))
		for n, f := range stack {
			frames[n] = i.name(f)
		}
		at = len(*i.stacks)
		i.at[key] = at
		*i.stacks = append(*i.stacks, frames)
		i.bytes += int64(len(key) + stringHeader*len(frames))
	}
	return at
}

func joined(frames []string) string {
	n := 0
	for _, f := range frames {
		n += len(f) + 1
	}
	b := make([]byte, 0, n)
	for _, f := range frames {
		b = append(append(b, f...), 0)
	}
	return string(b)
}

// frames are those of a stack, nil where it was lost.
func (p Profile) frames(stack int) []string {
	if stack < 0 || stack >= len(p.Stacks) {
		return nil
	}
	return p.Stacks[stack]
}

// byTotal sorts the longest first, and by name where that is equal.
func byTotal[T any](all []T, total func(T) float64, name func(T) string) {
	slices.SortFunc(all, func(a, b T) int {
		return cmp.Or(cmp.Compare(total(b), total(a)), cmp.Compare(name(a), name(b)))
	})
}
