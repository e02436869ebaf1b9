package ebpf

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/profile"
)

// perfSession records by perf events what runs and what switches. A thread of its own
// reads them.
type perfSession struct {
	events  *perfEvents
	samples *perfSamples
	pending []perfRecord // not yet in order with those of other CPUs
	kept    []byte       // their bytes
	newest  uint64       // time of the latest record of the round before
	wake    *os.File
	ended   chan error
	began   time.Time
	cost    time.Duration
}

// perfRecord is a record that waits for earlier ones of other CPUs.
type perfRecord struct {
	time     uint64
	cpu      int
	header   perfHeader
	from, to int // in perfSession.kept
}

// samplePerf records as RecordStacks does, by perf events: for kernels that take none of
// its programs. What they write is summed up here, by a thread that takes CPU time. It is
// a Recorder.
func samplePerf(own Selection) (stop func() (profile.Profile, error), err error) {
	known, err := kernelSymbols()
	if err != nil {
		return nil, err
	}
	s := &perfSession{ended: make(chan error, 1)}
	if s.events, err = openPerfEvents(); err != nil {
		return nil, cannotSample(err)
	}
	if err := s.begin(own); err != nil {
		return nil, errors.Join(cannotSample(err), s.events.close())
	}
	return func() (profile.Profile, error) {
		elapsed := time.Since(s.began)
		err := s.end()
		p := s.samples.profile(known, own.Root)
		p.Elapsed, p.Cost, p.Way = elapsed, s.cost, profile.BySamples
		if s.events.switches == nil {
			p.Way = profile.BySamplesAlone
			p.Notes = append(p.Notes, "time off the CPUs is not seen: "+s.events.lacks.Error())
		}
		p.Notes = append(p.Notes, howSampled(s.events.cycles))
		return p, errors.Join(err, s.events.close())
	}, nil
}

// begin switches the events on, and then looks at what runs already: what is born in
// between is in the records.
func (s *perfSession) begin(own Selection) error {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("perf events: %w", err)
	}
	s.wake = os.NewFile(uintptr(wake), "eventfd")
	if err := s.events.enable(true); err != nil {
		return errors.Join(err, s.wake.Close())
	}
	s.began = time.Now()
	processes, err := newProcessTable(own)
	if err != nil {
		return errors.Join(err, s.wake.Close())
	}
	s.samples = newPerfSamples(processes, s.events)
	go func() {
		runtime.LockOSThread() // its CPU time is what reading costs; the thread ends with it
		s.ended <- s.read()
	}()
	return nil
}

// end switches the events off, and takes what they have written.
func (s *perfSession) end() error {
	err := s.events.enable(false)
	if _, wakeErr := s.wake.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0}); wakeErr != nil {
		return errors.Join(err, fmt.Errorf("perf events: %w", wakeErr))
	}
	return errors.Join(err, <-s.ended, s.wake.Close())
}

// readEvery is how long records wait at most, in milliseconds: a ring is read before when
// a quarter of it is taken.
const readEvery = 100

// read takes records until it is woken.
func (s *perfSession) read() error {
	files := []unix.PollFd{{Fd: int32(s.wake.Fd()), Events: unix.POLLIN}}
	for _, r := range s.events.rings {
		files = append(files, unix.PollFd{Fd: int32(r.events[0].Fd()), Events: unix.POLLIN})
	}
	for {
		if _, err := unix.Poll(files, readEvery); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("perf events: %w", err)
		}
		last := files[0].Revents != 0
		if err := s.round(last); err != nil {
			return err
		}
		if last {
			var used unix.Rusage
			if err := unix.Getrusage(unix.RUSAGE_THREAD, &used); err != nil {
				return fmt.Errorf("perf events: %w", err)
			}
			s.cost = time.Duration(used.Utime.Nano() + used.Stime.Nano())
			return nil
		}
	}
}

// round takes what the rings hold, and adds up in the order of time what is older than
// all that was there the round before: nothing that comes later can be older than that.
func (s *perfSession) round(last bool) error {
	newest := s.newest
	for cpu := range s.events.rings {
		err := s.events.rings[cpu].take(func(h perfHeader, record []byte) error {
			from := len(s.kept)
			s.kept = append(s.kept, record...)
			s.pending = append(s.pending, perfRecord{timeOf(h.kind, record), cpu, h, from, len(s.kept)})
			newest = max(newest, s.pending[len(s.pending)-1].time)
			return nil
		})
		if err != nil {
			return err
		}
	}
	slices.SortStableFunc(s.pending, func(a, b perfRecord) int { return cmp.Compare(a.time, b.time) })
	done := len(s.pending)
	if !last {
		done, _ = slices.BinarySearchFunc(s.pending, s.newest+1, func(r perfRecord, t uint64) int { return cmp.Compare(r.time, t) })
	}
	for _, r := range s.pending[:done] {
		if err := s.samples.add(r.cpu, r.header, s.kept[r.from:r.to]); err != nil {
			return err
		}
	}
	s.newest = newest
	s.forget(done)
	return nil
}

// forget makes room of the records that were added up.
func (s *perfSession) forget(done int) {
	var kept []byte
	left := s.pending[done:]
	for i, r := range left {
		left[i].from = len(kept)
		kept = append(kept, s.kept[r.from:r.to]...)
		left[i].to = len(kept)
	}
	n := copy(s.pending, left)
	s.pending, s.kept = s.pending[:n], append(s.kept[:0], kept...)
}
