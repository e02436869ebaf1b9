// Package sys is thin code over Linux system calls and its file systems of
// settings: cgroups of both versions, mounts, and the primitives that find by
// label what a killed run has left behind.
package sys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Mode is how the machine's cgroups are set up.
type Mode string

// The modes that Linux machines boot in.
const (
	V1     Mode = "v1"     // controllers on hierarchies of version 1 alone
	Hybrid Mode = "hybrid" // version 1, and a version 2 tree beside them
	V2     Mode = "v2"     // one tree of version 2
	NoMode Mode = "none"   // no cgroup file system is mounted
)

// Hierarchy is one mounted tree of cgroups.
type Hierarchy struct {
	Path        string   // where it is mounted
	Root        string   // below Path: where tare's groups hang; "" unless a part was delegated to this user
	Version     int      // 1 or 2
	Controllers []string // of version 1 also named ones: "name=systemd"
	Writable    bool     // this user may make groups there: proven by making one
}

// Hierarchies are all of the machine's trees.
type Hierarchies struct {
	Mode Mode
	All  []Hierarchy
}

// Cgroups finds the machine's cgroup trees, once: what it finds is the boot's.
var Cgroups = sync.OnceValues(findCgroups)

func findCgroups() (Hierarchies, error) {
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		return m.FSType != "cgroup" && m.FSType != "cgroup2", false
	})
	if err != nil {
		return Hierarchies{}, fmt.Errorf("find the cgroup mounts: %w", err)
	}
	var h Hierarchies
	for _, m := range mounts {
		// There is one tree of version 2. Other mounts of it (a chroot's, of
		// another tare perhaps) may be closed to this user, or gone by now.
		if m.FSType == "cgroup2" && slices.ContainsFunc(h.All, func(o Hierarchy) bool { return o.Version == 2 }) {
			continue
		}
		one, err := hierarchy(m)
		if err != nil {
			return h, err
		}
		// A tree that is mounted twice counts once.
		if !slices.ContainsFunc(h.All, func(o Hierarchy) bool {
			return o.Version == one.Version && slices.Equal(o.Controllers, one.Controllers)
		}) {
			h.All = append(h.All, one)
		}
	}
	has := func(version int) bool {
		return slices.ContainsFunc(h.All, func(one Hierarchy) bool { return one.Version == version })
	}
	h.Mode = ModeOf(has(1), has(2))
	return h, nil
}

// ModeOf is the mode of a machine that has trees of version 1, of version 2, or of both.
func ModeOf(v1, v2 bool) Mode {
	switch {
	case v1 && v2:
		return Hybrid
	case v1:
		return V1
	case v2:
		return V2
	}
	return NoMode
}

func hierarchy(m *mountinfo.Info) (Hierarchy, error) {
	h := Hierarchy{Path: m.Mountpoint, Version: 1}
	if m.FSType == "cgroup2" {
		h.Version = 2
		text, err := os.ReadFile(filepath.Join(m.Mountpoint, "cgroup.controllers"))
		if err != nil {
			return h, fmt.Errorf("cgroup v2 at %s: %w", m.Mountpoint, err)
		}
		h.Controllers = strings.Fields(string(text))
	} else {
		h.Controllers = controllersV1(m.VFSOptions)
	}
	if err := h.findRoot(); err != nil {
		return h, err
	}
	return h, nil
}

// optionsV1 stand among the controllers of a tree of version 1 in the options of its mount
// (kernel/cgroup/cgroup-v1.c, cgroup1_show_options); seclabel is SELinux's.
var optionsV1 = []string{"rw", "ro", "clone_children", "cpuset_v2_mode", "favordynmods", "noprefix", "seclabel", "xattr"}

// controllersV1 are the controllers, and the name, of a tree by the options of its mount.
func controllersV1(options string) []string {
	return slices.DeleteFunc(strings.Split(options, ","), func(o string) bool {
		return slices.Contains(optionsV1, o) || strings.HasPrefix(o, "release_agent=")
	})
}

// findRoot sets Root and Writable. Root may write at the top; another user where
// a part of the v2 tree was delegated to it, which is its own group's parent or
// the group itself.
func (h *Hierarchy) findRoot() error {
	if h.tryMake("") {
		h.Writable = true
		return nil
	}
	if h.Version == 1 || os.Geteuid() == 0 {
		return nil
	}
	own, err := ownV2()
	if err != nil {
		return err
	}
	// Processes may not live beside groups with controllers, so the group above
	// tare's own is the better place; both must be this user's.
	for _, dir := range []string{filepath.Dir(own), own} {
		if dir != "/" && h.tryMake(dir) {
			h.Root, h.Writable = dir, true
			return nil
		}
	}
	return nil
}

// tryMake proves by use that a group can be made below root, and that a process
// can be moved there by this user.
func (h *Hierarchy) tryMake(root string) bool {
	dir := filepath.Join(h.Path, root, ProbeGroup("make"))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return false
	}
	defer func() { _ = unix.Rmdir(dir) }() // nothing is in it: this cannot be refused
	return unix.Access(filepath.Join(h.Path, root, "cgroup.procs"), unix.W_OK) == nil
}

// ownV2 is this process's group in the v2 tree.
func ownV2() (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", fmt.Errorf("find the own cgroup: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if own, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return own, nil
		}
	}
	return "/", nil
}

// Usable reports whether tare can make groups in any tree.
func (h Hierarchies) Usable() bool {
	return slices.ContainsFunc(h.All, func(o Hierarchy) bool { return o.Writable })
}

// Dir is the directory of the group rel in this tree.
func (h Hierarchy) Dir(rel string) string { return filepath.Join(h.Path, h.Root, rel) }

// Has reports whether the tree has the controller.
func (h Hierarchy) Has(controller string) bool { return slices.Contains(h.Controllers, controller) }

// Dirs are the directories of the group rel, in every writable tree.
func (h Hierarchies) Dirs(rel string) []string {
	var dirs []string
	for _, one := range h.All {
		if one.Writable {
			dirs = append(dirs, one.Dir(rel))
		}
	}
	return dirs
}

// With finds the writable tree that has the controller.
func (h Hierarchies) With(controller string) (Hierarchy, bool) {
	return h.writable(func(o Hierarchy) bool { return o.Has(controller) })
}

// For are the trees that an instance must be in: those that tell what it used,
// those that can hold it in its bounds, the v2 tree, and that of the scheduler's
// groups. The scheduler shares the CPUs between groups before it does between
// processes, so on a busy machine a payload in none gets another share than one in
// a container's group.
func (h Hierarchies) For(b Bounds) Hierarchies {
	needed := Hierarchies{Mode: h.Mode}
	for _, one := range h.All {
		if one.Version == 2 || one.Has("cpu") || one.Has("cpuacct") || one.Has("memory") || one.Has("perf_event") ||
			(b.CPUSet != "" || b.Mems != "") && one.Has("cpuset") || b.Pids > 0 && one.Has("pids") {
			needed.All = append(needed.All, one)
		}
	}
	return needed
}

// Unified finds the writable v2 tree.
func (h Hierarchies) Unified() (Hierarchy, bool) {
	return h.writable(func(o Hierarchy) bool { return o.Version == 2 })
}

// writable finds the first writable tree that is as wanted.
func (h Hierarchies) writable(wanted func(Hierarchy) bool) (Hierarchy, bool) {
	i := slices.IndexFunc(h.All, func(o Hierarchy) bool { return o.Writable && wanted(o) })
	if i < 0 {
		return Hierarchy{}, false
	}
	return h.All[i], true
}

// Make makes the group rel with its parents in every writable tree. On v2 it
// hands controllers down to rel itself and below its parents; on v1 it makes
// cpusets inherit their parent's CPUs.
func (h Hierarchies) Make(rel string) error {
	for _, one := range h.All {
		if !one.Writable {
			continue
		}
		err := one.makeGroup(rel)
		for tries := 0; errors.Is(err, fs.ErrNotExist) && tries < 3; tries++ {
			err = one.makeGroup(rel) // another tare has just removed an empty parent
		}
		if err != nil {
			return fmt.Errorf("make cgroup %s: %w", rel, err)
		}
	}
	return nil
}

// prepared are the directories, of any tree, that this process has made fit to
// have groups below them. Instances come and go below one group of a session:
// looking at its settings again for each would be most of what they cost.
var prepared sync.Map

func (h Hierarchy) makeGroup(rel string) error {
	parent := filepath.Dir(rel)
	if err := h.prepare(parent); err != nil {
		return err
	}
	err := os.Mkdir(h.Dir(rel), 0o755)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist): // the parent was removed behind our back
		for ; parent != "."; parent = filepath.Dir(parent) {
			prepared.Delete(h.Dir(parent))
		}
		return err
	case err == nil && h.Version == 1 && h.Has("cpuset"):
		return h.fillCpuset(rel)
	}
	return err
}

// prepare makes the group rel where it is missing, and hands controllers down to
// what will be below it.
func (h Hierarchy) prepare(rel string) error {
	if rel == "." || rel == "/" {
		return h.HandDown("")
	}
	dir := h.Dir(rel)
	if _, done := prepared.Load(dir); done {
		return nil
	}
	if err := h.makeGroup(rel); err != nil {
		return err
	}
	if err := h.HandDown(rel); err != nil {
		return err
	}
	// A group of the first level is shared with other processes, which may
	// remove it while it is empty.
	if strings.Contains(rel, "/") {
		prepared.Store(dir, true)
	}
	return nil
}

// handed are the controllers that tare limits and reads groups with, and engines ask
// for. At the top of the tree they stay on (docs/method.md), so no others are touched.
var handed = []string{"cpuset", "cpu", "io", "memory", "pids"}

// HandDown switches those of the controllers handed on that are there and off, for
// the groups below at. One that the kernel refuses (in use by v1, a busy group of a
// user) stays off: Limits fails later by name when it is asked for. Version 1 has
// nothing to hand down.
func (h Hierarchy) HandDown(at string) error {
	if h.Version == 1 {
		return nil
	}
	have, err := os.ReadFile(filepath.Join(h.Dir(at), "cgroup.controllers"))
	if err != nil {
		return err
	}
	control := filepath.Join(h.Dir(at), "cgroup.subtree_control")
	on, err := os.ReadFile(control)
	if err != nil {
		return err
	}
	already := strings.Fields(string(on))
	for _, c := range strings.Fields(string(have)) {
		if slices.Contains(already, c) || !slices.Contains(handed, c) {
			continue
		}
		err := os.WriteFile(control, []byte("+"+c), 0)
		if err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENOTSUP) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

// fillCpuset copies the parent's CPUs and memory nodes, without which a v1
// cpuset takes no process, and hands the habit down, so that the kernel does it
// for the groups below.
func (h Hierarchy) fillCpuset(rel string) error {
	cpus, err := os.ReadFile(filepath.Join(h.Dir(rel), "cpuset.cpus"))
	if err != nil || strings.TrimSpace(string(cpus)) != "" {
		return err
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(h.Dir(rel)), file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(h.Dir(rel), file), text, 0); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(h.Dir(rel), "cgroup.clone_children"), []byte("1"), 0)
}
