package store

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/tarelab/tare/internal/limit"
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
	ok, err = r.unpack(profileFile(seq), limit.RunProfile, func(from io.Reader) (err error) {
		p, err = profile.Decode(from)
		return err
	})
	return p, ok, err
}
