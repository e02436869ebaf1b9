package store

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tarelab/tare/internal/profile"
)

// profileFile is where a trial's profile is kept, below the run's directory.
func (r *Run) profileFile(seq int) string {
	return filepath.Join(r.dir, "profiles", fmt.Sprintf("%d.json.gz", seq))
}

// KeepProfile keeps what a probe saw in the trial seq. A trial that is done
// again replaces its profile.
func (r *Run) KeepProfile(seq int, p profile.Profile) error {
	file := r.profileFile(seq)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return full(fmt.Errorf("profile: %w", err))
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".profile.*")
	if err != nil {
		return full(fmt.Errorf("profile: %w", err))
	}
	packed := gzip.NewWriter(f)
	err = errors.Join(json.NewEncoder(packed).Encode(p), packed.Close(), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return full(errors.Join(fmt.Errorf("profile %s: %w", file, err), os.Remove(f.Name())))
	}
	return nil
}

// Profile reads what a probe saw in the trial seq. ok is false where none was
// kept.
func (r *Run) Profile(seq int) (p profile.Profile, ok bool, err error) {
	f, err := os.Open(r.profileFile(seq))
	if errors.Is(err, fs.ErrNotExist) {
		return p, false, nil
	}
	if err != nil {
		return p, false, fmt.Errorf("profile: %w", err)
	}
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	if err == nil {
		err = json.NewDecoder(unpacked).Decode(&p)
	}
	if err != nil {
		return p, false, fmt.Errorf("profile %s: %w: %w", f.Name(), err, ErrCorrupt)
	}
	return p, true, nil
}
