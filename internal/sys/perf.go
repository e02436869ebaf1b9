package sys

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// OpenPerf is perf_event_open(2) of an event in no group, whose descriptor no child
// inherits. Before Linux 3.14 the call itself cannot say so.
func OpenPerf(attr *unix.PerfEventAttr, pid, cpu, flags int) (int, error) {
	fd, err := unix.PerfEventOpen(attr, pid, cpu, -1, flags|unix.PERF_FLAG_FD_CLOEXEC)
	if err != unix.EINVAL {
		return fd, err
	}
	syscall.ForkLock.RLock() // no child between the call and the flag
	defer syscall.ForkLock.RUnlock()
	if fd, err = unix.PerfEventOpen(attr, pid, cpu, -1, flags); err == nil {
		unix.CloseOnExec(fd)
	}
	return fd, err
}
