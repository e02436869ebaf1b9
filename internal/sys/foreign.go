package sys

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/limit"
)

// foreignFlags open a file that others made without following a link in its place,
// waiting for the writer of a pipe, or becoming the terminal's owner.
const foreignFlags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC

// OpenForeign opens a file that others may have made or replaced. It must be a
// regular file that is no longer than l.Bytes, and no symbolic link.
func OpenForeign(path string, l limit.Limit) (*os.File, error) {
	return regular(l)(os.OpenFile(path, foreignFlags|unix.O_NOFOLLOW, 0))
}

// OpenGiven opens a file that the user named: a link of the user's is followed, and
// what it leads to must be a regular file that is no longer than l.Bytes.
func OpenGiven(path string, l limit.Limit) (*os.File, error) {
	return regular(l)(os.OpenFile(path, foreignFlags, 0))
}

// OpenForeignIn is OpenForeign of a path below root. A link is followed inside root
// only; one that leads out of it is an error.
func OpenForeignIn(root *os.Root, name string, l limit.Limit) (*os.File, error) {
	return regular(l)(root.OpenFile(name, foreignFlags, 0))
}

// ReadForeign reads all of a file that OpenForeign would open.
func ReadForeign(path string, l limit.Limit) ([]byte, error) {
	return readAll(l)(OpenForeign(path, l))
}

// ReadForeignIn reads all of a file that OpenForeignIn would open.
func ReadForeignIn(root *os.Root, name string, l limit.Limit) ([]byte, error) {
	return readAll(l)(OpenForeignIn(root, name, l))
}

// regular passes on a file that is regular and not too long, and closes others. The
// descriptor is asked, not the name, which may lead elsewhere by now.
func regular(l limit.Limit) func(*os.File, error) (*os.File, error) {
	return func(f *os.File, err error) (*os.File, error) {
		if err != nil {
			return nil, err
		}
		info, err := f.Stat()
		switch {
		case err != nil:
		case !info.Mode().IsRegular():
			err = fmt.Errorf("%s is not a regular file (%s)", f.Name(), info.Mode().Type())
		default:
			if err = l.CheckBytes(info.Size()); err != nil {
				err = fmt.Errorf("%s: %w", f.Name(), err)
			}
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		return f, nil
	}
}

// readAll reads a file to its end; it may have grown since its length was asked.
func readAll(l limit.Limit) func(*os.File, error) ([]byte, error) {
	return func(f *os.File, err error) ([]byte, error) {
		if err != nil {
			return nil, err
		}
		defer f.Close()
		data, err := l.ReadAll(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		return data, nil
	}
}

// FindProgram looks for a program in dirs, then in PATH, then where Debian installs
// daemons: a user's PATH lacks the sbin directories.
func FindProgram(dirs []string, program string) (string, error) {
	for _, dir := range dirs {
		if path := filepath.Join(dir, program); Executable(path) {
			return path, nil
		}
	}
	if path, err := exec.LookPath(program); err == nil {
		return filepath.Abs(path)
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin"} {
		if path := filepath.Join(dir, program); Executable(path) {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

// Executable tells a program from a directory of the same name.
func Executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && unix.Access(path, unix.X_OK) == nil
}
