package lab

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/trial"
	"github.com/tarelab/tare/internal/workload"
)

// startBarrier is the page at which the copies of all instances of a trial
// meet; nil where the job wants none.
func startBarrier(job workload.Job, instances int) *trial.Shared {
	if job.Barrier == 0 {
		return nil
	}
	return &trial.Shared{
		Target:  workload.UnixBarrier,
		Content: workload.UnixBarrierPage(max(1, instances) * job.Barrier),
		Failed:  abortBarrier,
	}
}

// abortBarrier lets those who wait at the page fail at once.
func abortBarrier(file string) (err error) {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("start barrier: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	page, err := unix.Mmap(int(f.Fd()), 0, len(workload.UnixBarrierPage(0)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("start barrier: mapping its page: %w", err)
	}
	return errors.Join(abortPage(page), unix.Munmap(page))
}

// faultError is how the runtime tells of an access that the kernel refused (debug.SetPanicOnFault).
type faultError interface {
	error
	Addr() uintptr
}

// abortPage survives that a payload cuts the file, which is shared with it, while the page
// is mapped: the kernel answers with SIGBUS, which would end the laboratory.
func abortPage(page []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		reason := recover()
		if _, fault := reason.(faultError); fault {
			err = errors.New("start barrier: a payload has cut the file of its page")
		} else if reason != nil {
			panic(reason)
		}
	}()
	workload.UnixBarrierAbort(page)
	return nil
}
