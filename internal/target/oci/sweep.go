package oci

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/tarelab/tare/internal/target"
)

// Left is a container that a killed run has left in a runtime's state.
type Left struct {
	Runtime string // driver's name
	Dir     string // the instance's directory
	ID      string // Spec.ID
}

// Find lists the containers of ours in the states below dir: by their place in
// an instance's directory and by tare's label, never another's.
func Find(dir string) ([]Left, error) {
	var all []Left
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone since it was listed, or never there
		}
		if err != nil || !entry.IsDir() {
			return err
		}
		switch entry.Name() {
		case "rootfs", "upper", "work": // payloads' files, however many
			return filepath.SkipDir
		case stateDir:
			found, err := leftIn(home{filepath.Dir(path)})
			all = append(all, found...)
			if err == nil {
				err = filepath.SkipDir
			}
			return err
		}
		return nil
	})
	if err != nil {
		return all, fmt.Errorf("look for containers below %s: %w", dir, err)
	}
	return all, nil
}

// leftIn reads the states of one instance.
func leftIn(h home) ([]Left, error) {
	var all []Left
	var errs []error
	for _, r := range Runtimes() {
		ids, err := containers(h.state(r.Name))
		errs = append(errs, err)
		for _, id := range ids {
			all = append(all, Left{r.Name, h.dir, id})
		}
	}
	return all, errors.Join(errs...)
}

// Sweep force-deletes the containers that a killed run left below dir, and says
// which. It must run before dir is removed.
func Sweep(ctx context.Context, lab target.Lab, dir string) ([]string, error) {
	left, err := Find(dir)
	errs := []error{err}
	var swept []string
	for _, l := range left {
		if err := l.remove(ctx, lab); err != nil {
			errs = append(errs, fmt.Errorf("container %s of %s: %w", l.ID, l.Runtime, err))
			continue
		}
		swept = append(swept, fmt.Sprintf("deleted container %s of %s", l.ID, l.Runtime))
	}
	return swept, errors.Join(errs...)
}

func (l Left) remove(ctx context.Context, lab target.Lab) error {
	n := slices.IndexFunc(Runtimes(), func(r Runtime) bool { return r.Name == l.Runtime })
	d := New(lab, Runtimes()[n])
	binary, err := d.ready()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	return d.forget(ctx, binary, home{l.Dir}, l.ID)
}
