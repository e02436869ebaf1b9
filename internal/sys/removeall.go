package sys

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	// levels is how deep RemoveAll goes down at once: each level takes a descriptor.
	levels = 64
	// batch is how many names of a directory are read at once: it may have millions.
	batch = 1024
)

// RemoveAll removes path and all below it, and follows no link but those above path. What
// is missing already is no error. os.RemoveAll (Go 1.26) opens a descriptor per level, so
// that it fails where a payload has made more levels than a process may open files.
func RemoveAll(path string) error {
	if path == "" { // as os.RemoveAll
		return nil
	}
	path = filepath.Clean(path)
	base := filepath.Base(path)
	if base == "." || base == ".." || base == "/" {
		return &fs.PathError{Op: "remove all", Path: path, Err: unix.EINVAL}
	}
	parent, err := os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	return new(removal).remove(parent, base, 0)
}

// removal is the removal of one tree.
type removal struct {
	top   *os.File // the tree's first directory, to which the deepest ones are moved
	moved int      // directories, so far
}

// remove removes what a directory has under a name. Moved to the top, it is gone as well:
// the top is emptied last.
func (r *removal) remove(dir *os.File, name string, depth int) error {
	err := unlink(dir, name)
	if !errors.Is(err, fs.ErrExist) { // it has ENOTEMPTY as well
		return err
	}
	if depth > levels {
		return r.move(dir, name)
	}
	if err := r.empty(dir, name, depth); err != nil {
		return err
	}
	return unlink(dir, name)
}

// unlink removes a file or an empty directory.
func unlink(dir *os.File, name string) error {
	at := int(dir.Fd())
	err := unix.Unlinkat(at, name, 0)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	derr := unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
	if derr == nil || derr == unix.ENOENT {
		return nil
	}
	if derr != unix.ENOTDIR {
		err = derr
	}
	return &fs.PathError{Op: "remove", Path: filepath.Join(dir.Name(), name), Err: err}
}

// move takes a directory to the top, under a name that no payload can foresee.
func (r *removal) move(dir *os.File, name string) error {
	if err := unix.Renameat(int(dir.Fd()), name, int(r.top.Fd()), rand.Text()); err != nil {
		return &fs.PathError{Op: "move to the top", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	r.moved++
	return nil
}

// empty removes what a directory holds, all that can be removed, and returns the first
// failure.
func (r *removal) empty(parent *os.File, name string, depth int) error {
	path := filepath.Join(parent.Name(), name)
	fd, err := unix.Openat(int(parent.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	dir := os.NewFile(uintptr(fd), path)
	defer dir.Close()
	if depth == 0 {
		r.top = dir
	}
	for {
		moved := r.moved
		seen, removed, err := r.pass(dir, depth)
		// Removing names may have moved others to where the directory was read already.
		if full := seen > batch && removed > 0; !full && (depth > 0 || r.moved == moved) {
			return err
		}
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
}

// pass reads a directory once, and removes what it finds there.
func (r *removal) pass(dir *os.File, depth int) (seen, removed int, failed error) {
	for {
		names, err := dir.Readdirnames(batch)
		if errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) { // another process removed the directory
			return seen, removed, failed
		}
		if err != nil {
			return seen, removed, err
		}
		for _, name := range names {
			seen++
			if err := r.remove(dir, name, depth+1); err == nil {
				removed++
			} else if failed == nil {
				failed = err
			}
		}
	}
}
