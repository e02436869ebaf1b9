package ebpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// sampleType is what each sample holds, in the order of perf_event_open(2): the thread,
// the time, how much it stands for, the call chain, and a tracepoint's raw data.
const sampleType = unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_PERIOD | unix.PERF_SAMPLE_CALLCHAIN | unix.PERF_SAMPLE_RAW

// The memory of rings: of each, and of all together.
const (
	mostRing  = 4 << 20
	leastRing = 64 << 10
	allRings  = 128 << 20
)

// ring is what the events of one CPU are written to.
type ring struct {
	events []*os.File // the first owns the memory, the others write to it
	memory []byte
	page   *unix.PerfEventMmapPage
	data   []byte
}

// perfEvents are the events of all CPUs.
type perfEvents struct {
	rings    []ring
	cycles   bool            // samples are of cycles; else of the CPUs' clocks
	switches *sys.Tracepoint // nil where switches cannot be had
	lacks    error           // why not
}

// openPerfEvents opens on each CPU an event that samples what runs, with the lives of
// processes, and one for the scheduler's switches. All are off.
func openPerfEvents() (e *perfEvents, err error) {
	e = &perfEvents{cycles: true}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	cpus, err := ebpf.PossibleCPU() // a file of /sys, and no call of bpf(2)
	if err != nil {
		return e, fmt.Errorf("perf events: %w", err)
	}
	if found, err := sys.FindTracepoint("sched/sched_switch"); err != nil {
		e.lacks = err
	} else {
		e.switches = &found
	}
	size := ringSize(cpus)
	for cpu := range cpus {
		r, err := e.openRing(cpu, size)
		if errors.Is(err, unix.ENODEV) {
			continue // this CPU is not there now
		}
		if err != nil {
			return e, fmt.Errorf("perf events of CPU %d: %w", cpu, err)
		}
		e.rings = append(e.rings, r)
	}
	return e, nil
}

// ringSize is a power of 2.
func ringSize(cpus int) int {
	size := mostRing
	for size > leastRing && size*cpus > allRings {
		size /= 2
	}
	return size
}

func (e *perfEvents) openRing(cpu, size int) (r ring, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if err = e.openSampler(&r, cpu, size); err != nil {
		return r, err
	}
	if e.switches != nil {
		attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Config: e.switches.ID, Sample: 1, Sample_type: sampleType,
			Bits: unix.PerfBitDisabled | unix.PerfBitSampleIDAll}
		if err = r.open(&attr, cpu); err != nil {
			return r, fmt.Errorf("sched_switch: %w", err)
		}
	}
	owner := int(r.events[0].Fd())
	r.memory, err = unix.Mmap(owner, 0, size+os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return r, fmt.Errorf("map %d bytes: %w", size, err)
	}
	r.page, r.data = (*unix.PerfEventMmapPage)(unsafe.Pointer(&r.memory[0])), r.memory[os.Getpagesize():]
	for _, other := range r.events[1:] {
		if err = unix.IoctlSetInt(int(other.Fd()), unix.PERF_EVENT_IOC_SET_OUTPUT, owner); err != nil {
			return r, fmt.Errorf("events of one ring: %w", err)
		}
	}
	return r, nil
}

// openSampler samples cycles, or where the machine counts none the CPU's clock.
func (e *perfEvents) openSampler(r *ring, cpu, size int) error {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_CPU_CYCLES, Sample: samplesPerSecond, Sample_type: sampleType,
		Bits:   unix.PerfBitDisabled | unix.PerfBitFreq | unix.PerfBitExcludeIdle | unix.PerfBitMmap | unix.PerfBitComm | unix.PerfBitTask | unix.PerfBitSampleIDAll | unix.PerfBitWatermark,
		Wakeup: uint32(size / 4)}
	if e.cycles {
		err := r.open(&attr, cpu)
		if !noCycles(err) {
			return err
		}
		e.cycles = false
	}
	attr.Type, attr.Config = unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CPU_CLOCK
	return r.open(&attr, cpu)
}

// open opens an event with times that are the same on all CPUs, as far as the kernel
// promises it (since Linux 4.1).
func (r *ring) open(attr *unix.PerfEventAttr, cpu int) error {
	attr.Size = uint32(unsafe.Sizeof(*attr))
	attr.Bits, attr.Clockid = attr.Bits|unix.PerfBitUseClockID, unix.CLOCK_MONOTONIC
	fd, err := sys.OpenPerf(attr, -1, cpu, 0)
	if errors.Is(err, unix.EINVAL) {
		attr.Bits, attr.Clockid = attr.Bits&^unix.PerfBitUseClockID, 0
		fd, err = sys.OpenPerf(attr, -1, cpu, 0)
	}
	if err != nil {
		return err
	}
	r.events = append(r.events, os.NewFile(uintptr(fd), "perf event"))
	return nil
}

// enable switches all events on, or off.
func (e *perfEvents) enable(on bool) error {
	request := uint(unix.PERF_EVENT_IOC_DISABLE)
	if on {
		request = unix.PERF_EVENT_IOC_ENABLE
	}
	for _, r := range e.rings {
		for _, event := range r.events {
			if err := unix.IoctlSetInt(int(event.Fd()), request, 0); err != nil {
				return fmt.Errorf("switch a perf event: %w", err)
			}
		}
	}
	return nil
}

func (e *perfEvents) close() error {
	var errs []error
	for i := range e.rings {
		errs = append(errs, e.rings[i].close())
	}
	return errors.Join(errs...)
}

func (r *ring) close() (err error) {
	if r.memory != nil {
		err = unix.Munmap(r.memory)
		r.memory = nil
	}
	for _, event := range r.events {
		event.Close()
	}
	return err
}

// mostRecord is the length of the longest record, which has 16 bits.
const mostRecord = 1 << 16

// perfHeader is the beginning of a record (struct perf_event_header), without its length.
type perfHeader struct {
	kind uint32
	misc uint16
}

const headerLength = 8

// take calls each for every record that the ring holds, and makes room. What each gets is
// gone afterwards.
func (r *ring) take(each func(h perfHeader, record []byte) error) error {
	head, tail := atomic.LoadUint64(&r.page.Data_head), r.page.Data_tail
	defer func() { atomic.StoreUint64(&r.page.Data_tail, tail) }()
	var joined [mostRecord]byte
	mask := uint64(len(r.data) - 1)
	for tail < head {
		at := tail & mask // records begin at multiples of 8: a header is never torn apart
		h := perfHeader{binary.NativeEndian.Uint32(r.data[at:]), binary.NativeEndian.Uint16(r.data[at+4:])}
		length := uint64(binary.NativeEndian.Uint16(r.data[at+6:]))
		if length < headerLength || length > head-tail {
			return fmt.Errorf("perf events: a record of %d bytes in a ring that holds %d", length, head-tail)
		}
		record := r.data[at:min(at+length, uint64(len(r.data)))]
		if rest := length - uint64(len(record)); rest > 0 {
			n := copy(joined[:], record)
			copy(joined[n:], r.data[:rest])
			record = joined[:length]
		}
		if err := each(h, record[headerLength:]); err != nil {
			return err
		}
		tail += length
	}
	return nil
}

// cannotSample says in the user's words why there are no perf events.
func cannotSample(err error) error {
	c := &driver.CannotError{Target: "the probe", Lacks: err.Error()}
	switch {
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		c.Lacks = "the right to sample all CPUs (" + err.Error() + ")"
		c.Remedy = "run as root with CAP_PERFMON, or CAP_SYS_ADMIN before Linux 5.8"
	case errors.Is(err, unix.ENOSYS) || noCycles(err):
		c.Remedy = "take a kernel with CONFIG_PERF_EVENTS"
	default:
		return err
	}
	return c
}
