package ebpf

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/cilium/ebpf/btf"

	"github.com/tarelab/tare/internal/profile"
)

// RecordLocks records waits for locks and other uninterruptible waits, of a
// selection and of the kernel's threads meanwhile. It is a Recorder. Where the
// kernel has no tracepoints of lock waits, it estimates them.
func RecordLocks(own Selection) (stop func() (profile.Profile, error), err error) {
	tells, err := tellsOfLocks()
	if err != nil {
		return nil, err
	}
	if !tells {
		return estimateLocks(own)
	}
	symbols, err := kernelSymbols()
	if err != nil {
		return nil, err
	}
	spec, err := loadLocks()
	if err != nil {
		return nil, fmt.Errorf("lock probe: %w", err)
	}
	var o locksObjects
	if err := load(spec, &o, own); err != nil {
		return nil, err
	}
	s := &session{objects: &o}
	if err := own.fill(o.Cgroups, o.Processes); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.attach(o.OnFork, o.OnExit, o.OnSwitch, o.OnBegin, o.OnEnd); err != nil {
		return nil, err
	}
	return func() (profile.Profile, error) {
		var p profile.Profile
		err := s.detach(&p)
		if err == nil {
			err = readWaits(&p, &o, symbols)
		}
		return p, errors.Join(err, s.close())
	}, nil
}

// tellsOfLocks reports whether the kernel has the tracepoints of lock waits.
func tellsOfLocks() (bool, error) {
	types, err := btf.LoadKernelSpec()
	if err != nil {
		if !hasBTF() {
			err = errors.Join(err, fs.ErrNotExist)
		}
		return false, cannot(fmt.Errorf("the kernel's types: %w", err))
	}
	var tracepoint *btf.Typedef
	err = types.TypeByName("btf_trace_contention_begin", &tracepoint)
	if errors.Is(err, btf.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("the kernel's types: %w", err)
	}
	return true, nil
}

// estimateLocks takes waits for locks from stacks. It is a Recorder.
func estimateLocks(own Selection) (stop func() (profile.Profile, error), err error) {
	record, err := RecordStacks(own)
	if err != nil {
		return nil, err
	}
	return func() (profile.Profile, error) {
		p, err := record()
		return p.Estimate(), err
	}, nil
}

func readWaits(p *profile.Profile, o *locksObjects, known *symbols) error {
	known.noteHidden(p)
	stacks := &stackTable{symbols: known, stacks: o.Stacks, profile: p, at: map[uint64]int{}}
	var key locksKey
	var sum locksSum
	rows := o.Sums.Iterate()
	for rows.Next(&key, &sum) {
		w := wait(key, sum)
		var err error
		if w.Stack, err = stacks.of(key.Stack); err != nil {
			return err
		}
		if w.Symbol == "" && w.Lock != 0 {
			w.Symbol = known.variable(w.Lock)
		}
		p.Waits = append(p.Waits, w)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the waits: %w", err)
	}
	if err := o.Spare.Lookup(uint32(1), &sum); err != nil {
		return fmt.Errorf("waits without a row: %w", err)
	}
	if sum.Count > 0 {
		p.Waits = append(p.Waits, wait(locksKey{}, sum))
	}
	return readLost(p, o.Lost)
}

// The kernel's flags of a wait (include/trace/events/lock.h), and the program's.
const (
	flagSpin   = 1
	flagRead   = 2
	flagWrite  = 4
	flagRT     = 8
	flagPercpu = 16
	flagMutex  = 32
	flagSleep  = 0x100
	flagMmap   = 0x200
)

func wait(k locksKey, s locksSum) profile.Wait {
	w := profile.Wait{
		Kind: kind(k.Kind), Lock: k.Lock, Stack: -1, Kernel: k.Owner == 1,
		Count: s.Count, Total: time.Duration(s.Total), Most: time.Duration(s.Most), Times: s.Histogram,
	}
	switch {
	case k.Kind&flagRead != 0:
		w.Mode = "read"
	case k.Kind&flagWrite != 0:
		w.Mode = "write"
	}
	if k.Kind&flagMmap != 0 {
		w.Symbol = "mmap_lock"
	}
	return w
}

func kind(flags uint32) profile.Kind {
	switch {
	case flags&flagSleep != 0:
		return profile.Sleep
	case flags&flagMutex != 0:
		return profile.Mutex
	case flags&flagPercpu != 0:
		return profile.PercpuRWSem
	case flags&flagRT != 0:
		return profile.RTMutex
	case flags&flagSpin != 0 && flags&(flagRead|flagWrite) != 0:
		return profile.RWLock
	case flags&flagSpin != 0:
		return profile.Spinlock
	case flags&(flagRead|flagWrite) != 0:
		return profile.RWSem
	}
	return profile.OtherLock
}
