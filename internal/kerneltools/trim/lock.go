package trim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// A BusyError says that another process builds in a directory.
type BusyError struct{ Dir string }

func (e *BusyError) Error() string {
	return fmt.Sprintf("another process builds in %s: wait for it; tare trim build takes another directory with --build and -o", e.Dir)
}

// lock makes this process the only one that builds in o.Build and o.Output, which
// it makes, until unlock or its end.
func (o *Options) lock() (unlock func() error, err error) {
	var held []*os.File
	unlock = func() error {
		var errs []error
		for _, f := range held {
			errs = append(errs, f.Close()) // and with it the lock
		}
		return errors.Join(errs...)
	}
	for _, dir := range slices.Compact([]string{o.Build, o.Output}) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, errors.Join(fmt.Errorf("build the kernel: %w", err), unlock())
		}
		f, err := os.OpenFile(filepath.Join(dir, ".tare.lock"), os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("build the kernel: %w", err), unlock())
		}
		held = append(held, f)
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			if errors.Is(err, unix.EWOULDBLOCK) {
				err = &BusyError{dir}
			}
			return nil, errors.Join(fmt.Errorf("build the kernel: %w", err), unlock())
		}
	}
	return unlock, nil
}
