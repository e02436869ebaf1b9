package ebpf

import (
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/profile"
)

// samplesPerSecond is how often each CPU is sampled: no divisor of what timers
// run at, and 7 µs a sample cost 0.4 % of a CPU.
const samplesPerSecond = 499

// RecordStacks records where the time of a selection's threads goes: on a CPU,
// asleep, or waiting for one; and what the kernel's threads do meanwhile. It is
// a Recorder.
//
// Where the kernel lacks what programs in it need, perf events do the same. The profile
// tells the way.
func RecordStacks(own Selection) (stop func() (profile.Profile, error), err error) {
	stop, err = sumUpStacks(own)
	var lacks *lackingError
	if !errors.As(err, &lacks) {
		return stop, err
	}
	byPerf, err := samplePerf(own)
	if err != nil {
		return nil, fmt.Errorf("%w; perf events are tried because %w", err, lacks)
	}
	return func() (profile.Profile, error) {
		p, err := byPerf()
		p.Notes = append(p.Notes, "measured by perf events, because "+lacks.Error())
		return p, err
	}, nil
}

// sumUpStacks records by programs in the kernel.
func sumUpStacks(own Selection) (stop func() (profile.Profile, error), err error) {
	spec, err := loadStacks()
	if err != nil {
		return nil, fmt.Errorf("stack probe: %w", err)
	}
	return recordStacks(own, spec)
}

func recordStacks(own Selection, spec *ebpf.CollectionSpec) (stop func() (profile.Profile, error), err error) {
	symbols, err := kernelSymbols()
	if err != nil {
		return nil, err
	}
	var o stacksObjects
	if err := load(spec, &o, own); err != nil {
		return nil, err
	}
	s := &session{objects: &o}
	if err := own.fill(o.Cgroups, o.Processes); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.attach(o.OnFork, o.OnExit, o.OnSwitch); err != nil {
		return nil, err
	}
	if err := own.follow(o.Processes); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.sample(o.OnSample); err != nil {
		return nil, errors.Join(cannot(err), s.close())
	}
	return func() (profile.Profile, error) {
		var p profile.Profile
		err := s.detach(&p)
		if err == nil {
			err = readTimes(&p, &o, symbols, own.Root)
		}
		return p, errors.Join(err, s.close())
	}, nil
}

// sample runs a program on every CPU samplesPerSecond times a second of its
// work: by cycles, or where the machine counts none by its clock.
func (s *session) sample(program *ebpf.Program) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("sample: %w", err)
	}
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_CPU_CYCLES,
		Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Sample: samplesPerSecond, Bits: unix.PerfBitFreq,
	}
	for cpu := 0; cpu < cpus; cpu++ {
		fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if noCycles(err) && attr.Type == unix.PERF_TYPE_HARDWARE {
			attr.Type, attr.Config = unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CPU_CLOCK
			fd, err = unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		}
		if errors.Is(err, unix.ENODEV) {
			continue // this CPU is not there now
		}
		if err != nil {
			return fmt.Errorf("sample CPU %d: %w", cpu, err)
		}
		s.links = append(s.links, os.NewFile(uintptr(fd), "perf event"))
		if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, program.FD()); err != nil {
			return fmt.Errorf("sample CPU %d: %w", cpu, err)
		}
	}
	s.programs = append(s.programs, program)
	s.notes = append(s.notes, howSampled(attr.Type == unix.PERF_TYPE_HARDWARE))
	return nil
}

// howSampled says what samples are of.
func howSampled(cycles bool) string {
	if cycles {
		return fmt.Sprintf("samples are taken %d times a second of a CPU's cycles", samplesPerSecond)
	}
	return fmt.Sprintf("samples are taken by the CPUs' clocks, %d a second: this machine counts no cycles", samplesPerSecond)
}

// noCycles tells a machine without a counter of cycles from other errors.
func noCycles(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL)
}

// The states of stacks.bpf.c, in its order.
var states = profile.States()

// timesReader turns the maps of the programs into a profile's samples.
type timesReader struct {
	p      *profile.Profile
	kernel *stackTable
	user   *userStacks
}

func readTimes(p *profile.Profile, o *stacksObjects, known *symbols, root string) error {
	known.noteHidden(p)
	r := timesReader{p,
		&stackTable{symbols: known, stacks: o.Stacks, profile: p, at: map[uint64]int{}},
		&userStacks{stacks: o.UserStacks, profile: p, at: map[uint64]int{}, programs: programsBelow(root)}}
	var row stacksRow
	var t stacksTotal
	rows := o.Rows.Iterate()
	for rows.Next(&row, &t) {
		if err := r.add(row, t); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("samples: %w", err)
	}
	if err := r.addSleeping(o.OffCpu); err != nil {
		return err
	}
	for owner := range owners {
		for i, state := range states {
			if err := o.Others.Lookup(uint32(owner*len(states)+i), &t); err != nil {
				return fmt.Errorf("samples without a row: %w", err)
			}
			if t.Count > 0 {
				p.Samples = append(p.Samples, profile.Sample{State: state, Stack: -1, User: -1, Comm: "[other]", Kernel: owner == ownerKernel, Shared: owner == ownerShared, Count: t.Count, Total: time.Duration(t.Time)})
			}
		}
	}
	ran, err := timeOnCPUs(o.Cpus)
	if err != nil {
		return err
	}
	spread(p, ran)
	return readLost(p, o.Lost)
}

func (r timesReader) add(row stacksRow, t stacksTotal) error {
	kernel, err := r.kernel.of(row.Kernel)
	if err != nil {
		return err
	}
	user, err := r.user.of(row.User)
	if err != nil {
		return err
	}
	r.p.Samples = append(r.p.Samples, profile.Sample{
		State: states[row.State], Stack: kernel, User: user, Comm: text(row.Name), Kernel: row.Owner == ownerKernel, Shared: row.Owner == ownerShared,
		Count: t.Count, Total: time.Duration(t.Time),
	})
	return nil
}

// addSleeping adds what was off its CPU until the end.
func (r timesReader) addSleeping(threads *ebpf.Map) error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("clock: %w", err)
	}
	var pid uint32
	var off stacksOff
	all := threads.Iterate()
	for all.Next(&pid, &off) {
		if err := r.add(off.Row, stacksTotal{Count: 1, Time: uint64(now.Nano()) - off.Since}); err != nil {
			return err
		}
	}
	if err := all.Err(); err != nil {
		return fmt.Errorf("threads off their CPUs: %w", err)
	}
	return nil
}

// timeOnCPUs is how long each owner's threads ran.
func timeOnCPUs(cpus *ebpf.Map) (ran [owners]time.Duration, err error) {
	var each []stacksCpu
	if err := cpus.Lookup(uint32(0), &each); err != nil {
		return ran, fmt.Errorf("time on CPUs: %w", err)
	}
	for _, c := range each {
		for owner, long := range c.Ran {
			ran[owner] += time.Duration(long)
		}
	}
	return ran, nil
}

// spread spreads the time that threads ran, as the scheduler has it, over the
// stacks that samples saw.
func spread(p *profile.Profile, ran [owners]time.Duration) {
	var seen [owners]uint64
	for _, s := range p.Samples {
		if s.State == profile.OnCPU {
			seen[ownerOf(s)] += s.Count
		}
	}
	for i, s := range p.Samples {
		if s.State == profile.OnCPU {
			owner := ownerOf(s)
			p.Samples[i].Total = time.Duration(float64(ran[owner]) * float64(s.Count) / float64(seen[owner]))
		}
	}
	for owner, total := range ran {
		if total > 0 && seen[owner] == 0 {
			p.Samples = append(p.Samples, profile.Sample{State: profile.OnCPU, Stack: -1, User: -1, Comm: "[no sample]",
				Kernel: owner == ownerKernel, Shared: owner == ownerShared, Total: total})
		}
	}
}

func ownerOf(s profile.Sample) int {
	switch {
	case s.Kernel:
		return ownerKernel
	case s.Shared:
		return ownerShared
	}
	return ownerOwn
}

// text is a thread's name.
func text(name [16]int8) string {
	var b []byte
	for _, c := range name {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return string(b)
}
