package sys

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// CopyTree copies the directories, regular files and links below from into the existing
// directory to, with modes, times and, for root, owners. No link is followed: what others
// put into the tree is copied, and nothing that it leads to. It leaves out device nodes,
// pipes, sockets and extended attributes. Hard links become files of their own.
func CopyTree(to, from string) error {
	source, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer target.Close()
	var dirs []entry
	err = fs.WalkDir(source.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		e := entry{path, info}
		if d.IsDir() {
			dirs = append(dirs, e)
			return e.makeDir(target)
		}
		return e.copy(target, source)
	})
	for i := len(dirs) - 1; i >= 0 && err == nil; i-- { // what is made in a directory changes its time
		err = dirs[i].finish(target)
	}
	if err != nil {
		return fmt.Errorf("copy %s to %s: %w", from, to, err)
	}
	return nil
}

// entry is one file or directory of a tree.
type entry struct {
	path string
	info fs.FileInfo
}

// makeDir makes a directory in which its owner can write until it is finished.
func (e entry) makeDir(target *os.Root) error {
	err := target.Mkdir(e.path, 0o700)
	if errors.Is(err, fs.ErrExist) && e.path == "." {
		return nil
	}
	return err
}

func (e entry) copy(target, source *os.Root) error {
	switch {
	case e.info.Mode()&fs.ModeSymlink != 0:
		text, err := source.Readlink(e.path)
		if err == nil {
			err = target.Symlink(text, e.path)
		}
		if err == nil {
			err = e.own(target)
		}
		return err
	case e.info.Mode().IsRegular():
		if err := e.contents(target, source); err != nil {
			return err
		}
		return e.finish(target)
	}
	return nil
}

func (e entry) contents(target, source *os.Root) error {
	in, err := source.OpenFile(e.path, foreignFlags|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := target.OpenFile(e.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// finish sets owner, mode and time, in this order: a change of owner clears bits of the mode.
func (e entry) finish(target *os.Root) error {
	err := e.own(target)
	if err == nil {
		err = target.Chmod(e.path, e.info.Mode())
	}
	if err == nil {
		err = target.Chtimes(e.path, time.Time{}, e.info.ModTime())
	}
	return err
}

func (e entry) own(target *os.Root) error {
	owner, ok := e.info.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 || owner.Uid == 0 && owner.Gid == uint32(os.Getegid()) {
		return nil // it is made so
	}
	return target.Lchown(e.path, int(owner.Uid), int(owner.Gid))
}
