package store

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/tarelab/tare/internal/profile"
)

// profileFile is where a trial's profile is kept, below the run's directory.
func profileFile(seq int) string { return fmt.Sprintf("profiles/%d.json.gz", seq) }

// KeepProfile keeps what a probe saw in the trial seq. A trial that is done
// again replaces its profile.
func (r *Run) KeepProfile(seq int, p profile.Profile) error {
	return r.writePacked(profileFile(seq), func(w io.Writer) error { return json.NewEncoder(w).Encode(p) })
}

// Profile reads what a probe saw in the trial seq. ok is false where none was
// kept. The error wraps ErrCorrupt where it cannot be read.
func (r *Run) Profile(seq int) (p profile.Profile, ok bool, err error) {
	data, ok, err := r.readPacked(profileFile(seq))
	if err != nil || !ok {
		return p, ok, err
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return profile.Profile{}, true, fmt.Errorf("%s: %w: %w", r.path(profileFile(seq)), err, ErrCorrupt)
	}
	return p, true, nil
}
