package store

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
)

// A run directory may be somebody else's, or a copy of one: it is data. All its files
// are opened below an os.Root, which nothing in it leads out of, without waiting for a
// pipe's other end, and only where they are regular files.

// openRoot opens a run's directory.
func openRoot(dir string) (*os.Root, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: there is no directory %s", ErrNotRun, dir)
	case err != nil:
		return nil, fmt.Errorf("run: %w", err)
	case !info.IsDir(): // opening a pipe would wait
		return nil, fmt.Errorf("%w: %s is a file, and a run is a directory", ErrNotRun, dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	return root, nil
}

// OpenFile opens a regular file below root. It follows no link in its place.
func OpenFile(root *os.Root, name string, flags int, mode fs.FileMode) (*os.File, error) {
	f, err := root.OpenFile(name, flags|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, mode)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: errNotRegular}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

var errNotRegular = errors.New("not a regular file")

// readPacked reads a side file. ok is false where there is none. What is damaged wraps
// ErrCorrupt, with what could be read of it.
func (r *Run) readPacked(name string) (data []byte, ok bool, err error) {
	ok, err = r.unpack(name, limit.RunSide, func(from io.Reader) (err error) {
		data, err = limit.RunSide.ReadAll(from)
		return err
	})
	return data, ok, err
}

// unpack has a side file of at most packed.Bytes read, unpacked. ok is false where
// there is none. An error wraps ErrCorrupt.
func (r *Run) unpack(name string, packed limit.Limit, read func(io.Reader) error) (ok bool, err error) {
	f, err := sys.OpenForeignIn(r.root, name, packed)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		defer func() { _ = f.Close() }() // only read
		var unpacked *gzip.Reader
		if unpacked, err = gzip.NewReader(f); err == nil {
			err = read(unpacked)
		}
	}
	if err != nil {
		return true, fmt.Errorf("%s: %w: %w", r.path(name), err, ErrCorrupt)
	}
	return true, nil
}

// writePacked puts a side file in place, whole and on the disk: the record of its trial
// is written after it, and must not outlive it in a power cut.
func (r *Run) writePacked(name string, write func(io.Writer) error) error {
	err := r.root.Mkdir(path.Dir(name), 0o755)
	if err == nil {
		err = syncDir(r.root, ".")
	} else if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err == nil {
		err = replace(r.root, name, 0o644, func(w io.Writer) error {
			packed := gzip.NewWriter(w)
			return errors.Join(write(packed), packed.Close())
		})
	}
	if err != nil {
		return NoSpace(fmt.Errorf("%s: %w", r.path(name), err))
	}
	return nil
}

// replace writes a file under a temporary name, waits until it is on the disk, and
// renames it: the name means the old content or the new, also after a power cut.
func replace(root *os.Root, name string, mode fs.FileMode, write func(io.Writer) error) error {
	temporary := path.Join(path.Dir(name), temporaryOf(path.Base(name)))
	if err := root.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a killed process that had this PID
		return NoSpace(err)
	}
	f, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return NoSpace(err)
	}
	err = errors.Join(write(f), f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		return NoSpace(errors.Join(err, root.Remove(temporary)))
	}
	return syncDir(root, path.Dir(name))
}

// temporaryOf is what a file or a run is called until it is whole, or once it goes.
func temporaryOf(name string) string { return "." + name + "." + strconv.Itoa(os.Getpid()) }

// syncDir makes the names in a directory below root durable.
func syncDir(root *os.Root, name string) error {
	d, err := root.Open(name)
	if err != nil {
		return NoSpace(err)
	}
	return NoSpace(errors.Join(d.Sync(), d.Close()))
}

// makeDirs makes a directory with its parents, and waits until their names are on the
// disk.
func makeDirs(dir string) error {
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return errors.Join(err, &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR})
		}
		return nil
	}
	parent := filepath.Dir(dir)
	if errors.Is(err, fs.ErrNotExist) && parent != dir {
		if err := makeDirs(parent); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o755)
		if errors.Is(err, fs.ErrExist) { // another process is as far
			err = nil
		}
	}
	if err != nil {
		return err
	}
	d, err := os.Open(parent)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// path is a file's path, for messages.
func (r *Run) path(name string) string {
	if r.hiding != nil {
		return filepath.Join(r.manifest.ID, name)
	}
	return filepath.Join(r.dir, name)
}

// Ours is ErrForeign of a run that somebody else made or can change: the directory and
// the files that are written must be this user's, and those files have no other name.
func (r *Run) Ours() error {
	if _, err := r.root.Lstat(importedFile); err == nil {
		return fmt.Errorf("%w: %s was imported, and its commands are not this user's (tare report reads it)", ErrForeign, r.dir)
	}
	if err := Ours(r.root, nil, []string{manifestFile, recordsFile, LockFile, environmentFile}); err != nil {
		return fmt.Errorf("%w: %w (tare report reads it)", ErrForeign, err)
	}
	return nil
}

// Ours refuses a directory that somebody else made or can change. It looks at root, and at
// those of these directories and files in it that are there. The files must have no other
// name.
func Ours(root *os.Root, dirs, files []string) error {
	for i, name := range slices.Concat([]string{"."}, dirs, files) {
		info, err := root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) && i > 0 {
			continue
		}
		if err != nil {
			return err
		}
		if err := ours(filepath.Join(root.Name(), name), info, i <= len(dirs)); err != nil {
			return err
		}
	}
	return nil
}

func ours(path string, info fs.FileInfo, dir bool) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("%s is not this user's: only who made it goes on with it", path)
	case dir && !info.IsDir():
		return fmt.Errorf("%s is a link or not a directory", path)
	case !dir && (!info.Mode().IsRegular() || stat.Nlink != 1):
		return fmt.Errorf("%s is a link or not a regular file", path)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("others can write %s: chmod go-w it once you have read it", path)
	}
	return nil
}
