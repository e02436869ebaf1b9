package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// LockFile is the file of a directory by which Lock locks it.
const LockFile = "lock"

// lockPatience is how long a writer waits for who only asks (Locked), which takes the
// lock for a moment: there is no asking without.
const (
	lockPatience = 200 * time.Millisecond
	lockPause    = 2 * time.Millisecond
)

// Lock makes this process the only writer of the directory, of a run or of another kind,
// until the file is closed. The kernel lets go of the lock when the process dies, however
// it dies. The file holds the owner's PID, for messages only. The error wraps busy where
// another process has the lock; every other error begins with what.
func Lock(root *os.Root, what string, busy error) (*os.File, error) {
	f, err := OpenFile(root, LockFile, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	err = flock(f, syscall.LOCK_EX)
	for waited := time.Duration(0); errors.Is(err, syscall.EWOULDBLOCK) && waited < lockPatience; waited += lockPause {
		time.Sleep(lockPause)
		err = flock(f, syscall.LOCK_EX)
	}
	if err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("%s: %w: PID %s", filepath.Clean(root.Name()), busy, owner(f))
		} else {
			err = fmt.Errorf("%s %s: %w", what, f.Name(), err)
		}
		return nil, errors.Join(err, f.Close())
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", what, err), f.Close())
	}
	return f, nil
}

// lock is Lock of a run.
func lock(root *os.Root) (*os.File, error) {
	f, err := Lock(root, "run lock", ErrBusy)
	return f, NoSpace(err)
}

// flock tries to take a lock, without waiting for it.
func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// owner reads the PID that a lock file names.
func owner(f *os.File) string {
	pid, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if text := strings.TrimSpace(string(pid)); err == nil && text != "" {
		return text
	}
	return "unknown"
}

// Locked reports whether some process has the lock of the directory.
func Locked(root *os.Root) bool {
	f, err := OpenFile(root, LockFile, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // only read
	return errors.Is(flock(f, syscall.LOCK_SH), syscall.EWOULDBLOCK)
}
