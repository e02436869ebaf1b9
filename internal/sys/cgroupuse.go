package sys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// write is one file of one group, and what to write there.
type write struct{ file, text string }

// Bounds limit a group; a zero field is no limit. Units as driver.Limits.
type Bounds struct {
	CPUs   float64 // CPU time per wall time
	CPUSet string
	Mems   string // NUMA nodes
	Shares int64  // weight of the CPU time, on version 1's scale: 1024 is the default
	Idle   bool   // CPU time that nobody else wants
	Memory int64  // bytes
	Pids   int64
}

// period is the CFS period: the kernel's default, long enough that a quota of a
// tenth of a CPU is not below the kernel's 1 ms minimum.
const period = 100 * time.Millisecond

// writes are those that put bounds on the group rel. It fails where no
// writable tree has the controller that a bound needs.
func (h Hierarchies) writes(rel string, b Bounds) ([]write, error) {
	quota := strconv.FormatInt(int64(b.CPUs*float64(period/time.Microsecond)), 10)
	per := strconv.FormatInt(int64(period/time.Microsecond), 10)
	memory, pids := strconv.FormatInt(b.Memory, 10), strconv.FormatInt(b.Pids, 10)
	var out []write
	for _, want := range []struct {
		asked      bool
		controller string
		v1, v2     []write
	}{
		{b.CPUs > 0, "cpu", []write{{"cpu.cfs_period_us", per}, {"cpu.cfs_quota_us", quota}}, []write{{"cpu.max", quota + " " + per}}},
		{b.CPUSet != "", "cpuset", []write{{"cpuset.cpus", b.CPUSet}}, []write{{"cpuset.cpus", b.CPUSet}}},
		{b.Mems != "", "cpuset", []write{{"cpuset.mems", b.Mems}}, []write{{"cpuset.mems", b.Mems}}},
		{b.Shares > 0, "cpu", []write{{"cpu.shares", strconv.FormatInt(b.Shares, 10)}}, []write{{"cpu.weight", strconv.FormatInt(weightOf(b.Shares), 10)}}},
		{b.Idle, "cpu", []write{{"cpu.idle", "1"}}, []write{{"cpu.idle", "1"}}},
		{b.Memory > 0, "memory", []write{{"memory.limit_in_bytes", memory}}, []write{{"memory.max", memory}}},
		{b.Pids > 0, "pids", []write{{"pids.max", pids}}, []write{{"pids.max", pids}}},
	} {
		if !want.asked {
			continue
		}
		tree, ok := h.With(want.controller)
		if !ok {
			return nil, fmt.Errorf("a limit needs the cgroup controller %q, which is in no tree that this user may write", want.controller)
		}
		files := want.v1
		if tree.Version == 2 {
			files = want.v2
		}
		for _, w := range files {
			out = append(out, write{filepath.Join(tree.Dir(rel), w.file), w.text})
		}
	}
	return out, nil
}

// weightOf is version 2's weight, 1 to 10000, of shares: 100 for 1024, the defaults of
// both, so that n times the shares is n times the weight.
func weightOf(shares int64) int64 { return min(max(1, (shares*100+512)/1024), 10000) }

// CanIdle proves by use that a group can be given the CPU time that nobody else wants.
func (h Hierarchies) CanIdle() bool {
	return h.proves("cpu", func(dir string) bool { return os.WriteFile(filepath.Join(dir, "cpu.idle"), []byte("1"), 0) == nil })
}

// CanBind proves by use that a group can be bound to CPUs: a user's part of a version 2
// tree mostly has no such controller.
func (h Hierarchies) CanBind() bool {
	return h.proves("cpuset", hasCPUs)
}

// Binds reports whether the group rel, which exists, can be bound to CPUs.
func (h Hierarchies) Binds(rel string) bool {
	tree, ok := h.With("cpuset")
	return ok && hasCPUs(tree.Dir(rel))
}

func hasCPUs(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cpuset.cpus"))
	return err == nil
}

// proves makes a group with a controller for a moment, and tries something there.
func (h Hierarchies) proves(controller string, try func(dir string) bool) bool {
	tree, ok := h.With(controller)
	if !ok {
		return false
	}
	name := ProbeGroup(controller)
	if tree.HandDown("") != nil || os.Mkdir(tree.Dir(name), 0o755) != nil {
		return false
	}
	defer func() { _ = unix.Rmdir(tree.Dir(name)) }() // nothing is in it: this cannot be refused
	return try(tree.Dir(name))
}

// Apply writes the bounds of the existing group rel.
func (h Hierarchies) Apply(rel string, b Bounds) error {
	writes, err := h.writes(rel, b)
	if err != nil {
		return err
	}
	for _, w := range writes {
		if err := os.WriteFile(w.file, []byte(w.text), 0); err != nil {
			return fmt.Errorf("limit %s to %q: %w", w.file, w.text, err)
		}
	}
	return nil
}

// Join moves the process pid into the group rel of every writable tree.
func (h Hierarchies) Join(rel string, pid int) error {
	for _, dir := range h.Dirs(rel) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("move process %d to cgroup %s: %w", pid, dir, err)
		}
	}
	return nil
}

// PIDs are the processes in the group rel and below it, in any tree.
func (h Hierarchies) PIDs(rel string) ([]int, error) {
	var pids []int
	for _, top := range h.Dirs(rel) {
		err := walkGroups(top, func(dir string) error {
			more, err := pidsIn(dir)
			pids = append(pids, more...)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list the processes of cgroup %s: %w", rel, err)
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// walkGroups visits the group of a directory and all below it, each before what is
// in it. What goes away meanwhile is no error.
func walkGroups(top string, visit func(dir string) error) error {
	return filepath.WalkDir(top, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return ignoreGone(err)
		}
		if err := visit(dir); err != nil {
			return ignoreGone(err)
		}
		// A directory has two links and one more for each in it, in every version of
		// cgroups: the fifty files of a group without others need not be listed.
		var st unix.Stat_t
		if unix.Lstat(dir, &st) == nil && st.Nlink == 2 {
			return fs.SkipDir
		}
		return nil
	})
}

func pidsIn(dir string) ([]int, error) {
	list, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var pids []int
	for line := range strings.Lines(string(list)) {
		pid, err := strconv.Atoi(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, fmt.Errorf("%s/cgroup.procs: %w", dir, err)
		}
		if pid > 0 { // 0 is a process outside our PID namespace
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// ignoreGone forgives a group that went away while it was looked at.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// Kill ends every process in the group rel and below it with SIGKILL, and
// returns when none is left, or after a deadline of 5 seconds with an error that
// names the survivors. A group that is not there is no error.
func (h Hierarchies) Kill(rel string) error {
	if one, ok := h.Unified(); ok {
		// One write where the kernel has it (5.14); the loop below finds the rest.
		_ = os.WriteFile(filepath.Join(one.Dir(rel), "cgroup.kill"), []byte("1"), 0)
	}
	pause := 100 * time.Microsecond
	for deadline := time.Now().Add(5 * time.Second); ; {
		pids, err := h.PIDs(rel)
		if err != nil || len(pids) == 0 {
			return err
		}
		for some := range slices.Chunk(pids, killedAtOnce) {
			if err := h.kill(rel, some); err != nil {
				return err
			}
		}
		h.thaw(rel)
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v of cgroup %s survive SIGKILL", pids, rel)
		}
		time.Sleep(pause)
		pause = min(2*pause, 20*time.Millisecond)
	}
}

// killedAtOnce bounds the descriptors that killing takes.
const killedAtOnce = 256

// kill ends those of the processes that are still in the group. A fork bomb uses up all
// numbers within a second, and the number of one that has ended since it was listed may
// be of a process of the machine: it is killed by a handle, and only if the number is
// in the group when there is one.
func (h Hierarchies) kill(rel string, pids []int) (err error) {
	handles := map[int]*Handle{}
	defer func() {
		for _, one := range handles {
			err = errors.Join(err, one.Close())
		}
	}()
	for _, pid := range pids {
		one, err := OpenProcess(pid)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cgroup %s: %w", rel, err)
		}
		handles[pid] = one
	}
	there, err := h.PIDs(rel)
	if err != nil {
		return err
	}
	for _, pid := range there {
		if one := handles[pid]; one != nil {
			if err := one.Kill(); err != nil {
				return fmt.Errorf("cgroup %s: %w", rel, err)
			}
		}
	}
	return nil
}

// thaw lets what is paused below the group rel run: in a freezer of version 1 it does not
// take the signal that ends it before.
func (h Hierarchies) thaw(rel string) {
	tree, ok := h.With("freezer")
	if !ok || tree.Version != 1 {
		return
	}
	_ = walkGroups(tree.Dir(rel), func(dir string) error {
		_ = os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("THAWED"), 0) // Kill reports what does not die
		return nil
	})
}

// Remove removes the group rel and all below it in every tree; processes in
// there must have ended. A group that is not there is no error.
func (h Hierarchies) Remove(rel string) error {
	var errs []error
	for _, top := range h.Dirs(rel) {
		errs = append(errs, removeTree(top))
	}
	return errors.Join(errs...)
}

func removeTree(top string) error {
	// The kernel removes no group that is in use: mostly one call is all.
	if err := unix.Rmdir(top); err == nil || err == unix.ENOENT {
		prepared.Delete(top)
		return nil
	}
	var dirs []string
	err := walkGroups(top, func(dir string) error {
		dirs = append(dirs, dir)
		return nil
	})
	if err != nil {
		return fmt.Errorf("look through cgroup %s: %w", top, err)
	}
	for _, dir := range slices.Backward(dirs) {
		if err := RemoveGroup(dir); err != nil {
			return err
		}
	}
	return nil
}

// RemoveGroup removes one group by its directory. A process that has just been
// reaped may hold it for a moment longer: the kernel says EBUSY until it is
// through, for at most 2 seconds here. A group that is not there is no error.
func RemoveGroup(dir string) error {
	pause := 100 * time.Microsecond
	for deadline := time.Now().Add(2 * time.Second); ; {
		err := unix.Rmdir(dir)
		if err == nil || err == unix.ENOENT {
			prepared.Delete(dir)
			return nil
		}
		if err != unix.EBUSY || time.Now().After(deadline) {
			return fmt.Errorf("remove cgroup %s: %w", dir, err)
		}
		time.Sleep(pause)
		pause = min(2*pause, 20*time.Millisecond)
	}
}
