package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
)

// inRoot follows a path as a process whose root directory is root would: the
// links on the way and the last one, absolute ones from root on, ".." never
// above it. The result holds no link and is relative to root ("." is root
// itself). What is missing on the way is given to make, or is an error where
// make is nil.
func inRoot(root *os.Root, p string, make func(missing string) error) (string, error) {
	rest := strings.Split(p, "/")
	at, links, names := ".", 0, 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at) // the parent of the root is the root
			continue
		}
		next := path.Join(at, part)
		names++
		if err := errors.Join(limit.ImagePath.CheckItems(names), checkPath(next)); err != nil {
			return "", err
		}
		info, err := root.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) && make != nil {
			if err := make(next); err != nil {
				return "", err
			}
			at = next
			continue
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next // where this is a file, what follows below it fails
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("more than %d symbolic links", maxLinks)
		}
		target, err := root.Readlink(next)
		if err != nil {
			return "", err
		}
		if path.IsAbs(target) {
			at = "."
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at, nil
}

// checkPath refuses a path, which holds no link, that no real image has. os.Root walks
// each path from the root on: the deeper it is, the longer every file below it takes.
func checkPath(at string) error {
	if err := limit.ImagePath.CheckBytes(int64(len(at))); err != nil {
		return err
	}
	return limit.ImagePath.CheckDepth(strings.Count(at, "/") + 1)
}

// LookPath finds a command inside the root: a bare name along search, a path
// as it is; what ForCommands was given, where it stands. It returns an absolute path for Spec.Args[0], or an error that says
// why the command cannot be run there.
func (r Root) LookPath(argv0, search string) (string, error) {
	if p, ok := r.commands[argv0]; ok {
		return p, nil
	}
	root, err := os.OpenRoot(r.Rootfs)
	if err != nil {
		return "", fmt.Errorf("root %s: %w", r.Rootfs, err)
	}
	defer root.Close()
	if strings.Contains(argv0, "/") {
		p := path.Clean("/" + argv0)
		if _, mounted := r.guest[p]; mounted && len(r.Mounts) > 0 {
			return p, nil // it comes with the mounts
		}
		return p, r.executable(root, p)
	}
	for _, dir := range strings.Split(search, ":") {
		p := path.Join("/", dir, argv0)
		at, err := inRoot(root, p, nil)
		if err != nil {
			continue // the next directory may have it
		}
		if info, err := root.Lstat(at); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return p, r.executable(root, p)
		}
	}
	return "", fmt.Errorf("the command %q is not in the root %s (searched: %s)", argv0, r.Rootfs, search)
}

// executable says why a file of the root cannot be run.
func (r Root) executable(root *os.Root, p string) error {
	at, err := inRoot(root, p, nil)
	if err != nil {
		return fmt.Errorf("the command %s is not in the root %s: %w", p, r.Rootfs, err)
	}
	info, err := root.Lstat(at)
	switch {
	case err != nil:
		return fmt.Errorf("command %s in %s: %w", p, r.Rootfs, err)
	case info.IsDir():
		return fmt.Errorf("%s is a directory in the root %s, not a command", p, r.Rootfs)
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not an executable file in the root %s", p, r.Rootfs)
	}
	f, err := sys.OpenForeignIn(root, at, limit.Limit{})
	if err != nil {
		return fmt.Errorf("command %s in %s: %w", p, r.Rootfs, err)
	}
	defer f.Close()
	return runsHere(root, f, p)
}

// runsHere checks the machine of a program and that its interpreter, or that of
// a script, is in the root.
func runsHere(root *os.Root, f *os.File, p string) error {
	head := make([]byte, scriptLine)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("command %s: %w", p, err)
	}
	var interp string
	switch head = head[:n]; {
	case isELF(head):
		e, err := sys.ProgramHeaders(f)
		if err != nil {
			return fmt.Errorf("command %s: %w", p, err)
		}
		if err := checkMachine(object{path: p, kind: e.Type, class: e.Class, machine: e.Machine}); err != nil {
			return err
		}
		if interp, err = interpreter(e); err != nil {
			return fmt.Errorf("command %s: %w", p, err)
		}
	case bytes.HasPrefix(head, []byte("#!")):
		if interp, _, err = shebang(string(head)); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	default:
		return fmt.Errorf("%s is neither a program (ELF) nor a script that names its interpreter in its first line (#!)", p)
	}
	if interp == "" {
		return nil
	}
	if _, err := inRoot(root, interp, nil); err != nil {
		return fmt.Errorf("the interpreter %s of %s is not in the root: %w", interp, p, err)
	}
	return nil
}
