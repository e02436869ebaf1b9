package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
)

// nameFile holds what the user calls a run.
const nameFile = "name"

// SetName gives the run in dir a name by which Resolve finds it beside its id; "" takes
// it away. A name is a word that no other run of the store has, and that neither is nor
// begins an id: ids begin with a digit.
func SetName(dir, name string) error {
	root, err := openRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // what is written is on the disk by then
	if _, err := readManifest(dir, root); err != nil {
		return err
	}
	if name == "" {
		if err := root.Remove(nameFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("run %s: %w", dir, err)
		}
		return nil
	}
	if err := validName(name); err != nil {
		return err
	}
	runs, err := find(filepath.Dir(filepath.Dir(dir)))
	if err != nil {
		return err
	}
	for _, r := range runs {
		if r.Name == name && r.Dir != dir {
			return fmt.Errorf("run %s is called %s already", r.ID, name)
		}
	}
	return replace(root, nameFile, 0o644, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, name)
		return err
	})
}

// validName refuses what could be taken for an id, a path, a flag or "last".
func validName(name string) error {
	letter := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
	other := func(r rune) bool { return !letter(r) && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r) }
	if name == "" || len(name) > 64 || !letter(rune(name[0])) || strings.ContainsFunc(name, other) || name == "last" {
		return fmt.Errorf("the name %.70q: take a letter, then up to 63 letters, digits, dots, dashes and underscores, and not \"last\"", name)
	}
	return nil
}

// nameOf is what the user calls a run; "" where that is nothing, or no name.
func nameOf(root *os.Root) string {
	text, err := sys.ReadForeignIn(root, nameFile, limit.RunName)
	name := strings.TrimSpace(string(text))
	if err != nil || validName(name) != nil {
		return ""
	}
	return name
}

// Remove deletes a run of this user's from the store that holds it. The error wraps
// ErrBusy while a process writes the run. A kill in the middle leaves what Sweep
// removes.
func Remove(dir string) error {
	root, err := removable(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // nothing is written
	base, id := filepath.Split(filepath.Clean(dir))
	held, err := lock(root)
	if err != nil {
		return err
	}
	gone := filepath.Join(base, temporaryOf(id))
	err = os.Rename(dir, gone)
	if err == nil {
		err = sys.RemoveAll(gone)
	}
	return errors.Join(err, held.Close())
}

// Removable is the error with which Remove refuses a directory that is not a run of this
// user's in a store. It wraps ErrNotRun or ErrForeign.
func Removable(dir string) error {
	root, err := removable(dir)
	if err != nil {
		return err
	}
	return root.Close()
}

func removable(dir string) (*os.Root, error) {
	if filepath.Base(filepath.Dir(filepath.Clean(dir))) != "runs" {
		return nil, fmt.Errorf("%w: %s is in no store's runs", ErrNotRun, dir)
	}
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%w: %s", ErrNotRun, dir)
	}
	root, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	if ours, err := owned(root); err != nil || !ours {
		return nil, errors.Join(err, fmt.Errorf("%w: %s is another user's, or others can write it", ErrForeign, dir), root.Close())
	}
	return root, nil
}
