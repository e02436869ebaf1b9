package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

// lockPatience is how long a writer waits for who only asks (live), which takes the
// lock for a moment: there is no asking without.
const (
	lockPatience = 200 * time.Millisecond
	lockPause    = 2 * time.Millisecond
)

// lock makes this process the run's only writer until the file is closed. The
// kernel lets go of the lock when the process dies, however it dies. The file
// holds the owner's PID, for messages only.
func lock(dir string, root *os.Root) (*os.File, error) {
	f, err := OpenFile(root, lockFile, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, full(fmt.Errorf("run lock: %w", err))
	}
	err = flock(f, syscall.LOCK_EX)
	for waited := time.Duration(0); errors.Is(err, syscall.EWOULDBLOCK) && waited < lockPatience; waited += lockPause {
		time.Sleep(lockPause)
		err = flock(f, syscall.LOCK_EX)
	}
	if err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("%s: %w: PID %s", dir, ErrBusy, owner(f))
		} else {
			err = fmt.Errorf("run lock %s: %w", f.Name(), err)
		}
		return nil, errors.Join(err, f.Close())
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
	if err != nil {
		return nil, errors.Join(full(fmt.Errorf("run lock: %w", err)), f.Close())
	}
	return f, nil
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

// live reports whether some process writes the run.
func live(root *os.Root) bool {
	f, err := OpenFile(root, lockFile, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // only read
	return errors.Is(flock(f, syscall.LOCK_SH), syscall.EWOULDBLOCK)
}
