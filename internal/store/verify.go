package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/profile"
)

// Verification is what Verify found of a run.
type Verification struct {
	Records   int     // that are whole and have their place in the plan
	Trials    int     // of the plan
	Sums      bool    // every record has a checksum; false in older runs
	SideFiles int     // logs, profiles and series that can be read
	Damaged   []error // of records and side files, each with its place; all wrap ErrCorrupt
	Cut       int64   // bytes of a last record that a kill or a full disk cut short
}

// Verify reads all of a run and reports what is damaged.
func (r *Run) Verify() (Verification, error) {
	v := Verification{Trials: r.manifest.Trials, Sums: r.manifest.Sums != ""}
	all := &Run{dir: r.dir, root: r.root, manifest: r.manifest, salvage: true}
	whole, damaged, err := all.each(func(*trialLine) error {
		v.Records++
		return nil
	})
	if err != nil {
		return v, err
	}
	if info, err := r.root.Stat(recordsFile); err == nil {
		v.Cut = info.Size() - whole
	}
	for _, dir := range []string{"logs", "profiles"} {
		entries, err := fs.ReadDir(r.root.FS(), dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return v, fmt.Errorf("run %s: %w", r.manifest.ID, err)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".") {
				continue // a file that a kill cut short, which nobody reads
			}
			if err := r.verifySide(path.Join(dir, e.Name())); err != nil {
				damaged.add(func() error { return err })
			} else {
				v.SideFiles++
			}
		}
	}
	v.Damaged = damaged.errors(r.dir)
	return v, nil
}

func (r *Run) verifySide(name string) error {
	if strings.HasPrefix(name, "profiles/") {
		_, err := r.unpack(name, limit.RunProfile, func(from io.Reader) error {
			_, err := profile.Decode(from)
			return err
		})
		return err
	}
	_, err := r.unpack(name, limit.RunSide, func(from io.Reader) error {
		_, err := io.Copy(io.Discard, limit.RunSide.Reader(from))
		return err
	})
	return err
}
