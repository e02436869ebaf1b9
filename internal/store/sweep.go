package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"

	"github.com/tarelab/tare/internal/sys"
)

// temporaryName is what temporaryOf gives: .NAME.PID.
var temporaryName = regexp.MustCompile(`^\.[^/]+\.[0-9]+$`)

// Sweep removes what killed processes of this user left in a store: runs that have no
// manifest yet, and so no record, runs that were being imported or removed, and files
// that were not whole yet. It reports what it did, a line each. A run that is being
// written is left alone, and so is what holds anything else.
func Sweep(root string) ([]string, error) {
	base := filepath.Join(root, "runs")
	entries, err := os.ReadDir(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	var did []string
	var errs []error
	for _, e := range entries {
		if !e.IsDir() {
			continue // not a run's
		}
		dir := filepath.Join(base, e.Name())
		removed, err := sweepRun(dir)
		if removed != "" {
			did = append(did, removed)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%s: %w", dir, err))
		}
	}
	return did, errors.Join(errs...)
}

func sweepRun(dir string) (did string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }() // nothing is written through it any more
	if ours, err := owned(root); err != nil || !ours {
		return "", err
	}
	_, err = root.Lstat(manifestFile)
	whole, going := err == nil, temporaryName.MatchString(filepath.Base(dir))
	if !whole && !going && !onlyBegun(root) {
		return "", nil
	}
	held, err := lock(root)
	if errors.Is(err, ErrBusy) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = held.Close() }() // and with it the lock
	if going {
		return fmt.Sprintf("run %s: removed, it was being imported or removed", filepath.Base(dir)), sys.RemoveAll(dir)
	}
	if _, err := root.Lstat(manifestFile); err == nil && !whole {
		return "", nil // its maker was as far meanwhile
	}
	removed, err := sweepTemporary(root)
	if err != nil || whole {
		if removed > 0 {
			did = fmt.Sprintf("run %s: removed %d unfinished files", filepath.Base(dir), removed)
		}
		return did, err
	}
	for _, name := range []string{recordsFile, environmentFile, LockFile} {
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return fmt.Sprintf("run %s: removed, it had no manifest yet", filepath.Base(dir)), os.Remove(dir)
}

// owned reports whether a run's directory is this user's, and nobody else can write it.
func owned(root *os.Root) (bool, error) {
	info, err := root.Stat(".")
	if err != nil {
		return false, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid() && info.Mode().Perm()&0o022 == 0, nil
}

// onlyBegun reports whether a directory holds no more than a run's before its manifest:
// no record, and nothing of anybody else.
func onlyBegun(root *os.Root) bool {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return false
	}
	for _, e := range entries {
		known := slices.Contains([]string{recordsFile, environmentFile, LockFile}, e.Name()) || temporaryName.MatchString(e.Name())
		info, err := e.Info()
		if err != nil || !known || !info.Mode().IsRegular() || e.Name() == recordsFile && info.Size() > 0 {
			return false
		}
	}
	return true
}

func sweepTemporary(root *os.Root) (removed int, err error) {
	for _, dir := range []string{".", "logs", "profiles"} {
		entries, err := fs.ReadDir(root.FS(), dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return removed, err
		}
		for _, e := range entries {
			if !e.Type().IsRegular() || !temporaryName.MatchString(e.Name()) {
				continue
			}
			if err := root.Remove(path.Join(dir, e.Name())); err != nil {
				return removed, err
			}
			removed++
		}
	}
	return removed, nil
}
