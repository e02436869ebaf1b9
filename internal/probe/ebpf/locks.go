package ebpf

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/profile"
)

// RecordLocks records waits for locks and other uninterruptible waits, of a
// selection and of the kernel's threads meanwhile. It is a Recorder. Where the
// kernel lacks what that needs, such as tracepoints of lock waits, it estimates them from
// stacks. The profile tells the way.
func RecordLocks(own Selection) (stop func() (profile.Profile, error), err error) {
	stop, err = measureLocks(own)
	var lacks *lackingError
	if errors.As(err, &lacks) {
		return estimateLocks(own, lacks)
	}
	return stop, err
}

// measureLocks records waits by the kernel's tracepoints of their begins and ends.
func measureLocks(own Selection) (stop func() (profile.Profile, error), err error) {
	if err := tellsOfLocks(); err != nil {
		return nil, err
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
	if err := own.follow(o.Processes); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return func() (profile.Profile, error) {
		var p profile.Profile
		var until unix.Timespec // before the programs go, one after another
		err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &until)
		if err = errors.Join(err, s.detach(&p)); err == nil {
			err = readWaits(&p, &o, symbols, uint64(until.Nano()))
		}
		return p, errors.Join(err, s.close())
	}, nil
}

// tellsOfLocks is a lackingError where the kernel has no tracepoints of lock waits.
func tellsOfLocks() error {
	types, err := btf.LoadKernelSpec()
	if err != nil {
		if !hasBTF() {
			err = errors.Join(err, fs.ErrNotExist)
		}
		return cannot(fmt.Errorf("the kernel's types: %w", err))
	}
	var tracepoint *btf.Typedef
	err = types.TypeByName("btf_trace_contention_begin", &tracepoint)
	if errors.Is(err, btf.ErrNotFound) {
		return &lackingError{"this kernel has no tracepoints of lock waits (Linux 5.19)"}
	}
	if err != nil {
		return fmt.Errorf("the kernel's types: %w", err)
	}
	return nil
}

// estimateLocks takes waits for locks from stacks, for a kernel that lacks what measuring
// them needs.
func estimateLocks(own Selection, lacks error) (stop func() (profile.Profile, error), err error) {
	record, err := RecordStacks(own)
	if err != nil {
		return nil, err
	}
	return func() (profile.Profile, error) {
		p, err := record()
		return p.Estimate(lacks.Error()), err
	}, nil
}

// readWaits turns the maps of the programs, which were detached at a moment of the
// monotonic clock, into a profile's waits.
func readWaits(p *profile.Profile, o *locksObjects, known *symbols, until uint64) error {
	known.noteHidden(p)
	stacks := &stackTable{symbols: known, stacks: o.Stacks, profile: p, at: map[uint64]int{}}
	var key locksKey
	var sum locksSum
	rows := o.Sums.Iterate()
	for rows.Next(&key, &sum) {
		w := wait(key, sum)
		if err := stacks.place(&w, key.Stack); err != nil {
			return err
		}
		p.Waits = append(p.Waits, w)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the waits: %w", err)
	}
	if err := readSpare(p, o.Spare); err != nil {
		return err
	}
	if err := readUnfinished(p, o, stacks, until); err != nil {
		return err
	}
	return readLost(p, o.Lost)
}

// readSpare adds the waits that found no row, by the slots of locks.bpf.c.
func readSpare(p *profile.Profile, spare *ebpf.Map) error {
	var sum locksSum
	for slot := uint32(1); slot < spare.MaxEntries(); slot++ {
		if err := spare.Lookup(slot, &sum); err != nil {
			return fmt.Errorf("waits without a row: %w", err)
		}
		if sum.Count == 0 {
			continue
		}
		key := locksKey{Owner: (slot - 1) / spareKinds, Kind: (slot - 1) % spareKinds}
		if key.Kind == spareKinds-1 {
			key.Kind = flagSleep
		}
		p.Waits = append(p.Waits, wait(key, sum))
	}
	return nil
}

// readUnfinished adds the waits that had not ended at a moment of the monotonic
// clock, with their time until then.
func readUnfinished(p *profile.Profile, o *locksObjects, stacks *stackTable, until uint64) error {
	for _, underWay := range []*ebpf.Map{o.Waiting, o.Sleeping} {
		var pid uint32
		var w locksWait
		threads := underWay.Iterate()
		for threads.Next(&pid, &w) {
			if w.Since >= until {
				continue
			}
			found := wait(locksKey{Lock: w.Lock, Kind: w.Kind, Owner: w.Owner}, locksSum{})
			if err := stacks.place(&found, w.Stack); err != nil {
				return err
			}
			found.Count, found.Unfinished = 1, 1
			found.Total = time.Duration(until - w.Since)
			found.Most = found.Total
			found.Times.Count(found.Total)
			p.Waits = append(p.Waits, found)
		}
		if err := threads.Err(); err != nil {
			return fmt.Errorf("waits under way: %w", err)
		}
	}
	return nil
}

// place gives a wait its stack, and its lock the kernel's name for it.
func (t *stackTable) place(w *profile.Wait, stack uint64) (err error) {
	if w.Stack, err = t.of(stack); err == nil && w.Symbol == "" && w.Lock != 0 {
		w.Symbol = t.symbols.variable(w.Lock)
	}
	return err
}

// What locks.bpf.c and select.h have of owners and spare rows.
const (
	ownerOwn    = 0
	ownerKernel = 1
	ownerShared = 2
	owners      = 3
	spareKinds  = 128
)

// The program's own flags, in the same word as the kernel's (profile.WaitFlags).
const (
	flagSleep = 0x100
	flagMmap  = 0x200
)

func wait(k locksKey, s locksSum) profile.Wait {
	w := profile.Wait{
		Kind: profile.Sleep, Lock: k.Lock, Stack: -1, Kernel: k.Owner == ownerKernel, Shared: k.Owner == ownerShared,
		Count: s.Count, Total: time.Duration(s.Total), Most: time.Duration(s.Most), Times: s.Histogram,
	}
	if k.Kind&flagSleep == 0 {
		w.Kind, w.Mode = profile.WaitFlags(k.Kind).Kind()
	}
	if k.Kind&flagMmap != 0 {
		w.Symbol = "mmap_lock"
	}
	return w
}
