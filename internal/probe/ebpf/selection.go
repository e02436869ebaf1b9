package ebpf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// Selection says whose events count.
type Selection struct {
	cgroups map[uint64]int // of version 2: id -> depth
	tree    string         // where that version is mounted
	dirs    []string       // the directories of cgroups
	pids    []int          // these and their descendants
	shared  []int          // the same, of an engine that others use too
	// everybody: the whole machine, whoever works there.
	everybody bool
	// Root is where their programs' files are, to name functions; "" for the
	// host's root.
	Root string
}

// deepest is how deep a cgroup may lie to be selected (select.h, LEVELS).
const deepest = 15

// Select selects the processes that a trial's watches name: by cgroup of
// version 2, the kernel's programs having no way to ask for one of version 1,
// else by process.
func Select(on []driver.Watch) (Selection, error) {
	h, err := sys.Cgroups()
	if err != nil {
		return Selection{}, err
	}
	s := Selection{cgroups: map[uint64]int{}}
	unified, v2 := h.Unified()
	for _, w := range on {
		if w.Role == driver.RoleShared {
			if w.PID != 0 && !slices.Contains(s.shared, w.PID) { // each instance tells of it
				s.shared = append(s.shared, w.PID)
			}
			continue
		}
		if w.Cgroup != "" && v2 {
			ok, err := s.addCgroup(unified.Path, unified.Dir(w.Cgroup))
			if err != nil {
				return s, err
			}
			if ok {
				continue
			}
		}
		if w.Cgroup != "" {
			pids, err := h.PIDs(w.Cgroup)
			if err != nil {
				return s, err
			}
			s.pids = append(s.pids, pids...)
		}
		if w.PID != 0 {
			s.pids = append(s.pids, w.PID)
		}
	}
	return s, nil
}

// SelectCgroup selects the processes of a cgroup of version 2 and of those below
// it, by its directory or by its path below the tree's root.
func SelectCgroup(dir string) (Selection, error) {
	h, err := sys.Cgroups()
	if err != nil {
		return Selection{}, err
	}
	unified, ok := h.Unified()
	if !ok {
		return Selection{}, errors.New("no cgroup tree of version 2 is mounted here, and only those can be watched: use --pid")
	}
	if !strings.HasPrefix(dir, unified.Path+"/") {
		dir = filepath.Join(unified.Path, dir)
	}
	dir = filepath.Clean(dir)
	var info unix.Stat_t
	switch err := unix.Stat(dir, &info); {
	case dir != unified.Path && !strings.HasPrefix(dir, unified.Path+"/"):
		return Selection{}, fmt.Errorf("%s is no cgroup below %s", dir, unified.Path)
	case err == nil && info.Mode&unix.S_IFMT != unix.S_IFDIR:
		return Selection{}, fmt.Errorf("%s is a file, and no cgroup", dir)
	}
	s := Selection{cgroups: map[uint64]int{}}
	ok, err = s.addCgroup(unified.Path, dir)
	if err == nil && !ok {
		err = fmt.Errorf("there is no cgroup %s", dir)
	}
	return s, err
}

// SelectAll selects every process of the machine.
func SelectAll() Selection { return Selection{everybody: true} }

// SelectProcess selects a process and what descends from it, before and after.
func SelectProcess(pid int) (Selection, error) {
	if err := unix.Kill(pid, 0); err != nil && !errors.Is(err, unix.EPERM) {
		return Selection{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return Selection{pids: []int{pid}, Root: fmt.Sprintf("/proc/%d/root/", pid)}, nil // the directory behind the link
}

func (s *Selection) addCgroup(root, dir string) (ok bool, err error) {
	var info unix.Stat_t
	err = unix.Stat(dir, &info)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cgroup: %w", err)
	}
	rel, err := filepath.Rel(root, dir)
	if err != nil {
		return false, fmt.Errorf("cgroup %s: %w", dir, err)
	}
	depth := strings.Count(rel, "/") + 1
	if rel == "." || depth > deepest {
		return false, fmt.Errorf("cgroup %s has depth %d below %s: it must be 1 to %d", dir, depth, root, deepest)
	}
	s.cgroups[info.Ino] = depth
	s.tree, s.dirs = root, append(s.dirs, dir)
	return true, nil
}

// constants puts what the programs are compiled with into their specification.
func (s Selection) constants(spec *ebpf.CollectionSpec) error {
	levels := s.levels(initial(cgroupNamespace))
	return errors.Join(
		spec.Variables["cgroup_levels"].Set(levels),
		spec.Variables["everybody"].Set(truth(s.everybody)),
		spec.Variables["by_process"].Set(truth(len(s.pids)+len(s.shared) > 0)),
		spec.Variables["kernel_threads"].Set(uint8(1)),
	)
}

// levels are the depths at which a task's ancestors are looked for. In a cgroup
// namespace the tree's root seems higher than it is, nobody can tell by how much, and
// a cgroup may lie at any depth below the one that is seen.
func (s Selection) levels(sees bool) (levels uint32) {
	for _, depth := range s.cgroups {
		levels |= 1 << depth
		for deeper := depth; !sees && deeper <= deepest; deeper++ {
			levels |= 1 << deeper
		}
	}
	return levels
}

// The namespaces in which the kernel begins (include/linux/proc_ns.h).
const (
	cgroupNamespace = "cgroup:[4026531835]"
	pidNamespace    = "pid:[4026531836]"
)

// initial says that this process sees what the kernel's programs see: it is in the
// namespace in which the kernel begins.
func initial(namespace string) bool {
	kind, _, _ := strings.Cut(namespace, ":")
	own, err := os.Readlink("/proc/self/ns/" + kind)
	return err != nil || own == namespace // err: the kernel has none of them
}

func truth(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// fill puts the sets into the programs' maps.
func (s Selection) fill(cgroups, processes *ebpf.Map) error {
	for id := range s.cgroups {
		if err := cgroups.Put(id, uint8(1)); err != nil {
			return fmt.Errorf("select cgroup %d of %d: %w", id, len(s.cgroups), err)
		}
	}
	return s.follow(processes)
}

// follow puts the processes into the programs' map, with those that descend from
// them already. It is called before the programs run, and again when they do: what
// was forked in between is found the second time, and what is forked from then on
// by the programs.
func (s Selection) follow(processes *ebpf.Map) error {
	if len(s.pids)+len(s.shared) > 0 && !initial(pidNamespace) {
		return &driver.CannotError{Target: "the probe", Lacks: "the host's numbers of processes: tare runs in a PID namespace, whose numbers mean others to the kernel",
			Remedy: "run it in the host's (docker run --pid host), or watch a cgroup"}
	}
	for _, pid := range s.shared {
		if err := followOne(processes, pid, ownerShared); err != nil {
			return err
		}
	}
	for _, pid := range s.pids {
		if err := followOne(processes, pid, ownerOwn); err != nil {
			return err
		}
	}
	return nil
}

// followOne walks down from a process. Each stands in the map before its children
// are asked for: whatever it forks later, the programs see.
func followOne(processes *ebpf.Map, root int, who uint8) error {
	seen := map[int]bool{}
	for left := []int{root}; len(left) > 0; left = left[1:] {
		pid := left[0]
		if seen[pid] {
			continue
		}
		seen[pid] = true
		err := processes.Update(uint32(pid), who, ebpf.UpdateAny)
		if errors.Is(err, unix.E2BIG) {
			return fmt.Errorf("process %d has more descendants than the %d that can be watched: watch a cgroup", root, processes.MaxEntries())
		}
		if err != nil {
			return fmt.Errorf("select process %d: %w", pid, err)
		}
		if errors.Is(unix.Kill(pid, 0), unix.ESRCH) { // its end was not seen: its number may be another's soon
			if err := processes.Delete(uint32(pid)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return fmt.Errorf("select process %d: %w", pid, err)
			}
			continue
		}
		children, err := sys.Children(pid)
		if err != nil {
			return err
		}
		left = append(left, children...)
	}
	return nil
}
