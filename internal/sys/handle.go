package sys

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Handle is one process, whatever becomes of its pid. Where the kernel has pidfds it is
// one; before Linux 5.3 it is the pid with the process's start time.
type Handle struct {
	fd    int // -1 where there are no pidfds
	pid   int
	start uint64 // of the process, where fd is -1
}

// OpenProcess is a handle on the process that has the pid now. The error is unix.ESRCH
// where none has it.
func OpenProcess(pid int) (*Handle, error) {
	if HasCall(CallPidfd) {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return nil, fmt.Errorf("open process %d: %w", pid, err)
		}
		return &Handle{fd: fd, pid: pid}, nil
	}
	start, err := startOf(pid)
	if err == nil && start == 0 {
		err = unix.ESRCH
	}
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	return &Handle{fd: -1, pid: pid, start: start}, nil
}

// startLooks is how often a process without a pidfd is looked at.
const startLooks = 5 * time.Millisecond

// EndsIn waits for the process to end, at most so long, and reports whether it has. One
// that has ended and was not waited for counts.
func (h *Handle) EndsIn(long time.Duration) (bool, error) {
	until := time.Now().Add(long)
	if h.fd < 0 {
		return h.looks(until)
	}
	poll := []unix.PollFd{{Fd: int32(h.fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(poll, int(max(0, time.Until(until).Milliseconds())))
		if !errors.Is(err, unix.EINTR) {
			return n > 0, err
		}
	}
}

func (h *Handle) looks(until time.Time) (bool, error) {
	for {
		start, err := startOf(h.pid)
		if err != nil || start != h.start {
			return err == nil, err
		}
		if !time.Now().Before(until) {
			return false, nil
		}
		time.Sleep(startLooks)
	}
}

// Kill ends the process with SIGKILL. One that has ended is no error. Without pidfds the
// start time is compared at once before: only a process that gets the same pid between
// the two, after all others were used, would be killed in its place.
func (h *Handle) Kill() error {
	var err error
	if h.fd >= 0 && HasCall("pidfd_send_signal") {
		err = unix.PidfdSendSignal(h.fd, unix.SIGKILL, nil, 0)
	} else if ended, looked := h.EndsIn(0); looked != nil || ended {
		err = looked
	} else {
		err = unix.Kill(h.pid, unix.SIGKILL)
	}
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", h.pid, err)
	}
	return nil
}

// Close forgets the process, which goes on.
func (h *Handle) Close() error {
	if h.fd < 0 {
		return nil
	}
	return unix.Close(h.fd)
}
