package sys

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// MakeCgroup makes the group rel in every tree in which this user may.
func MakeCgroup(rel string) error {
	h, err := Cgroups()
	if err != nil {
		return err
	}
	return h.Make(rel)
}

// KillCgroup kills what runs in the group rel and below it, in every tree.
func KillCgroup(rel string) error {
	h, err := Cgroups()
	if err != nil {
		return err
	}
	return h.Kill(rel)
}

// RemoveCgroups kills what runs in the group rel and below it, in every tree,
// and removes them. It returns the number of processes that it found there.
func RemoveCgroups(rel string) (killed int, err error) {
	h, err := Cgroups()
	if err != nil {
		return 0, err
	}
	if h.removeIdle(rel) {
		return 0, nil
	}
	pids, err := h.PIDs(rel)
	if err != nil {
		return 0, err
	}
	if slices.Contains(pids, os.Getpid()) {
		return 0, fmt.Errorf("remove cgroup %s: tare itself runs in it", rel)
	}
	if len(pids) > 0 {
		if err := h.Kill(rel); err != nil {
			return 0, err
		}
	}
	return len(pids), h.Remove(rel)
}

// RemoveEmptyCgroup removes the group rel from every tree in which it is empty.
// Where it is not, others still use it, and it stays.
func RemoveEmptyCgroup(rel string) error {
	h, err := Cgroups()
	if err != nil {
		return err
	}
	for _, dir := range h.Dirs(rel) {
		err := unix.Rmdir(dir)
		if err != nil && err != unix.ENOENT && err != unix.EBUSY && err != unix.ENOTEMPTY {
			return fmt.Errorf("remove cgroup %s: %w", dir, err)
		}
	}
	return nil
}

// removeIdle removes the group rel from the trees in which nothing uses it, and
// reports whether it is gone from all of them.
func (h Hierarchies) removeIdle(rel string) bool {
	all := true
	for _, dir := range h.Dirs(rel) {
		err := unix.Rmdir(dir)
		if err == nil || err == unix.ENOENT {
			prepared.Delete(dir)
		} else {
			all = false
		}
	}
	return all
}

// ProbeGroup is the name of a group that a proof makes at the top of a tree, where
// no session's is above it, and removes at once. purpose is made of [a-z]. The name says
// whose it is: PID namespace, start and pid of this process.
func ProbeGroup(purpose string) string {
	self, err := Self()
	if err != nil { // no /proc: what a kill leaves then, stays
		self.PID = os.Getpid()
	}
	return fmt.Sprintf("tare-probe-%s-%d-%d-%d", purpose, self.Namespace, self.Start, self.PID)
}

var probeGroups = regexp.MustCompile(`^tare-probe-[a-z]+-([0-9]+)-([0-9]+)-([0-9]+)$`)

// probeMaker is the process that a probe's group is named after.
func probeMaker(name string) (maker Identity, ok bool) {
	parts := probeGroups.FindStringSubmatch(name)
	self, err := Self()
	if parts == nil || err != nil {
		return maker, false
	}
	maker = self // groups do not outlive a boot
	maker.Namespace, err = strconv.ParseUint(parts[1], 10, 64)
	if err == nil {
		maker.Start, err = strconv.ParseUint(parts[2], 10, 64)
	}
	if err == nil {
		maker.PID, err = strconv.Atoi(parts[3])
	}
	return maker, err == nil
}

// SweepProbes removes the groups of ProbeGroup that killed processes have left, and
// gives their directories. One in which a process runs stays.
func SweepProbes() ([]string, error) {
	h, err := Cgroups()
	if err != nil {
		return nil, err
	}
	var removed []string
	var errs []error
	for _, top := range h.Dirs("") {
		entries, err := os.ReadDir(top)
		errs = append(errs, err)
		for _, e := range entries {
			maker, ok := probeMaker(e.Name())
			if !ok {
				continue
			}
			if life, err := maker.Life(); life != Ended {
				errs = append(errs, err)
				continue
			}
			dir := filepath.Join(top, e.Name())
			if err := RemoveGroup(dir); err == nil {
				removed = append(removed, dir)
			} else if !errors.Is(err, unix.EBUSY) {
				errs = append(errs, err)
			}
		}
	}
	return removed, errors.Join(errs...)
}
