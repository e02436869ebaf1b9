package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tarelab/tare/internal/cni"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/sys"
)

// Each set of commands that was weighed has an image of the size of the workbench:
// these many are kept, and for this long after their last use.
const (
	keptImages = 8
	imageAge   = 7 * 24 * time.Hour
)

// PruneImages removes old images below stateDir that no process uses, and says
// what it did. Runs keep their images' digests, and the same files give the same
// image again.
func PruneImages(ctx context.Context, stateDir string) ([]string, error) {
	n, err := image.NewStore(stateDir).Prune(ctx, imageAge, keptImages)
	if n == 0 || err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf("images: removed %d, to keep the last %d of a week", n, keptImages)}, nil
}

// Sweep ends and removes what sessions left that are proven to be of this machine, and
// whose processes have ended: the processes in their cgroups and the cgroups, what their drivers made elsewhere, the
// machine's settings that they changed, the mounts below their directories, and the
// directories; runs that have no manifest yet; and the cgroups that proofs of the machine's cgroups left. It reports what
// it did and what it left alone, a line each.
func Sweep(ctx context.Context, stateDir string, drivers func(driver.Lab) []driver.Driver) ([]string, error) {
	dead, swept, err := deadSessions(stateDir)
	errs := []error{err}
	for _, s := range dead {
		did, err := s.sweep(ctx, drivers(driver.Lab{}))
		swept = append(swept, did...)
		errs = append(errs, err)
	}
	unfinished, err := store.Sweep(stateDir)
	swept, errs = append(swept, unfinished...), append(errs, err)
	probes, err := sys.SweepProbes()
	for _, dir := range probes {
		swept = append(swept, "removed the cgroup "+dir)
	}
	return swept, errors.Join(append(errs, err)...)
}

// sweep cleans up after one dead session. What it holds the lock of is removed
// last, so that an error leaves it for the next sweep.
func (s *session) sweep(ctx context.Context, drivers []driver.Driver) ([]string, error) {
	did, err := s.undo(ctx, drivers)
	if err != nil {
		return did, errors.Join(err, s.lock.Close())
	}
	if err := s.remove(); err != nil {
		return did, fmt.Errorf("directory of session %s: %w", s.name, err)
	}
	return append(did, fmt.Sprintf("session %s: removed %s", s.name, s.dir)), nil
}

// undo ends and removes what a dead session left outside of its directory, and the mounts
// below it. It reports what it did, a line each.
func (s *session) undo(ctx context.Context, drivers []driver.Driver) (did []string, err error) {
	report := func(what string, names []string) {
		for _, name := range names {
			did = append(did, fmt.Sprintf("session %s: %s%s", s.name, what, name))
		}
	}
	killed := 0
	if s.life != sys.Rebooted { // groups do not outlive a boot: one of that name is another's
		killed, err = removeGroup(groupName(s.name))
	}
	if err != nil {
		return did, fmt.Errorf("cgroups of session %s: %w", s.name, err)
	}
	if killed > 0 {
		did = append(did, fmt.Sprintf("session %s: ended %d processes", s.name, killed))
	}
	for _, d := range drivers {
		sweeper, ok := driver.As[driver.Sweeper](d)
		if !ok {
			continue
		}
		removed, err := sweeper.Sweep(ctx, s.runDir())
		report("", removed)
		if err != nil {
			return did, fmt.Errorf("session %s: %w", s.name, err)
		}
	}
	taken, err := cni.Sweep(ctx, s.runDir())
	report("", taken)
	if err != nil {
		return did, fmt.Errorf("session %s: %w", s.name, err)
	}
	restored, err := sys.RestoreSettings(s.settings())
	if err != nil {
		return did, fmt.Errorf("session %s: %w", s.name, err)
	}
	report("put back ", restored)
	unmounted, err := sys.UnmountBelow(s.dir)
	if err != nil {
		return did, fmt.Errorf("mounts of session %s: %w", s.name, err)
	}
	report("unmounted ", unmounted)
	return did, nil
}
