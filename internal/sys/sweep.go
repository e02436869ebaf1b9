package sys

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

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
