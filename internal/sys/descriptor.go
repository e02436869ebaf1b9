package sys

import (
	"os"

	"golang.org/x/sys/unix"
)

// Duplicate opens a descriptor of the same file that closing or a deadline of the other
// one does not touch. Of nil it is nil.
func Duplicate(f *os.File) (*os.File, error) {
	if f == nil {
		return nil, nil
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd, dupErr := -1, error(nil)
	if err := raw.Control(func(of uintptr) { fd, dupErr = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, err
	}
	if dupErr != nil {
		return nil, dupErr
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
