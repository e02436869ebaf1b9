// Package sys is thin code over Linux system calls and its file systems of
// settings: pidfds, cgroups of both versions, mounts, and the primitives that
// find by label what a killed run has left behind.
package sys

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Exit is how a child ended, as waitid(2) tells.
type Exit struct {
	Code   int // exit code, when Signal is 0
	Signal int // the signal that killed it, else 0
	Usage  unix.Rusage
}

// OpenPidfd is pidfd_open(2), with the descriptor set up for Go's poller, so
// that waiting for thousands of processes takes no thread each.
func OpenPidfd(pid int) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("pidfd_open %d: %w", pid, err)
	}
	// PIDFD_NONBLOCK is younger (5.10) than pidfd_open (5.3), and the same bit.
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("pidfd of %d: %w", pid, err)
	}
	return os.NewFile(uintptr(fd), fmt.Sprintf("pidfd:%d", pid)), nil
}

// WaitPidfd blocks until the child behind pidfd has ended, reaps it, and says
// how it ended. A read deadline on pidfd bounds the wait.
func WaitPidfd(pidfd *os.File) (Exit, error) {
	conn, err := pidfd.SyscallConn()
	if err != nil {
		return Exit{}, err
	}
	var exit Exit
	var waitErr error
	err = conn.Read(func(fd uintptr) bool {
		var done bool
		exit, done, waitErr = waitNow(int(fd))
		return done || waitErr != nil
	})
	if err == nil {
		err = waitErr
	}
	if err != nil {
		return Exit{}, fmt.Errorf("wait for %s: %w", pidfd.Name(), err)
	}
	return exit, nil
}

// siginfo is the part of siginfo_t that waitid fills, on 64-bit machines other
// than MIPS and on MIPS alike: mips swaps only si_errno and si_code.
type siginfo struct {
	Signo, ErrnoOrCode, CodeOrErrno, _ int32
	Pid, UID, Status                   int32
	_                                  [100]byte
}

// waitNow reaps the child if it has ended, without blocking.
func waitNow(pidfd int) (exit Exit, done bool, err error) {
	var info siginfo
	errno := unix.EINTR
	for errno == unix.EINTR {
		_, _, errno = unix.Syscall6(unix.SYS_WAITID, unix.P_PIDFD, uintptr(pidfd), uintptr(unsafe.Pointer(&info)),
			unix.WEXITED|unix.WNOHANG, uintptr(unsafe.Pointer(&exit.Usage)), 0)
	}
	switch {
	case errno == unix.EAGAIN:
		return exit, false, nil
	case errno != 0:
		return exit, false, errno
	case info.Pid == 0:
		return exit, false, nil
	}
	if siginfoCode(&info) == cldExited {
		exit.Code = int(info.Status)
	} else {
		exit.Signal = int(info.Status)
	}
	return exit, true, nil
}

// cldExited is CLD_EXITED of <signal.h>: the child called exit. The other codes
// that waitid gives for WEXITED are CLD_KILLED and CLD_DUMPED.
const cldExited = 1
