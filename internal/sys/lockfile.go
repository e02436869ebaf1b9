package sys

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockLook is how often a process that waits for another one's lock looks.
const lockLook = 50 * time.Millisecond

// LockFile makes a file, where it is missing, and waits for its lock. Closing the file
// releases the lock, and so does the end of the process. waiting is called once, where
// another process has the lock; nil for nothing.
func LockFile(ctx context.Context, file string, waiting func()) (*os.File, error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return f, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			f.Close()
			return nil, fmt.Errorf("lock of %s: %w", file, err)
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(lockLook):
		}
	}
}
