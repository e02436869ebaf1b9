// Package containers finds the containers that run on a machine, whoever made
// them, and reads what each uses over time: from cgroup files of either version
// and from the counters of its network namespace.
package containers

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/sys"
)

// A Container is a control group whose processes live in a PID namespace of
// their own, or whose name is one that an engine gives.
type Container struct {
	ID     string `json:"id"`     // the engine's, else the group's path
	Name   string `json:"name"`   // the engine's name for it, else the short id
	Engine string `json:"engine"` // docker, containerd, podman, or oci for all others
	Path   string `json:"path"`   // of its group, below the tree where it was found
	Leader int    `json:"leader"` // the first of its processes

	groups     map[string]string // controller ("" for version 2) -> directory
	group      uint64            // number of its directory: a container that is started again has another
	ownNetwork bool              // its leader was seen in a network namespace that is not the machine's
}

// The forms of groups' names by engine; the id is the first match.
var engineForms = []struct {
	engine string
	form   *regexp.Regexp
}{
	{"docker", regexp.MustCompile(`/docker/([0-9a-f]{64})$|/docker-([0-9a-f]{64})\.scope$`)},
	{"podman", regexp.MustCompile(`/libpod-([0-9a-f]{64})(?:\.scope)?(?:/container)?$`)},
	{"containerd", regexp.MustCompile(`/cri-containerd-([0-9a-f]{64})\.scope$|/kubepods[^/]*/.*/([0-9a-f]{64})$`)},
	{"cri-o", regexp.MustCompile(`/crio-([0-9a-f]{64})\.scope$`)},
}

// conmons are groups of an engine's own helpers, which are named like containers.
var conmons = regexp.MustCompile(`/libpod-conmon-|/crio-conmon-`)

// find finds the containers that have a process now, sorted by name. A container
// inside a container counts for the outer one. It needs root to see all; without
// it, those of which the namespace may be read. Those that are known, by path, it
// takes as they are as long as their first process is the same: to tell a container
// anew costs more than to read it.
func (f *files) find(trees sys.Hierarchies, known map[string]*Container) ([]*Container, error) {
	tree, err := walked(trees)
	if err != nil {
		return nil, err
	}
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return nil, fmt.Errorf("find containers: %w", err)
	}
	var out []*Container
	err = below(tree.Path, func(dir string) (into bool) {
		path := strings.TrimPrefix(dir, tree.Path)
		c, ok := known[path]
		if ok = ok && f.holds(dir, c.Leader); !ok {
			var is unix.Stat_t
			if ok = unix.Stat(dir, &is) == nil; !ok {
				return false // it ended meanwhile
			}
			var one Container
			if one, ok = f.container(dir, path, own); ok {
				one.groups, one.group = groups(trees, one.Leader, dir, tree), is.Ino
				c = &one
			}
		}
		if !ok {
			return true
		}
		if c.Name == c.short() { // at its start its first process was the runtime's, and the engine's file not written
			c.Name = nameOf(*c)
		}
		out = append(out, c)
		return false
	})
	if err != nil {
		return nil, fmt.Errorf("find containers: %w", err)
	}
	slices.SortFunc(out, func(x, y *Container) int { return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.ID, y.ID)) })
	return out, nil
}

// below visits the groups below one, and those below them where visit says so.
func below(dir string, visit func(dir string) (into bool)) error {
	var is unix.Stat_t
	if unix.Stat(dir, &is) == nil && is.Nlink == 2 { // as many links as groups in it, and two (fs/kernfs/inode.c, kernfs_refresh_inode)
		return nil
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, fs.ErrPermission) {
		return nil // it ended meanwhile, or is not ours to see
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if one := filepath.Join(dir, e.Name()); visit(one) {
			err = errors.Join(err, below(one, visit))
		}
	}
	return err
}

// walked is the tree in which containers are looked for: version 2 where that
// has the controllers, else that of the memory controller or the next best.
func walked(trees sys.Hierarchies) (sys.Hierarchy, error) {
	for _, controller := range []string{"memory", "cpuacct", "pids", "devices", "freezer"} {
		for _, h := range trees.All {
			if slices.Contains(h.Controllers, controller) {
				return h, nil
			}
		}
	}
	for _, h := range trees.All {
		if h.Version == 2 {
			return h, nil
		}
	}
	return sys.Hierarchy{}, errors.New("find containers: no cgroup controller is mounted")
}

// container says whether a group is one.
func (f *files) container(dir, path, own string) (Container, bool) {
	if conmons.MatchString(path) {
		return Container{}, false
	}
	leader := f.firstProcess(dir)
	if c, ok := named(path); ok {
		if leader == 0 { // version 2 with a group inside, as crun and systemd in a container make
			leader = f.firstBelow(dir)
		}
		c.Leader = leader
		c.Name = nameOf(c)
		return c, leader != 0
	}
	if leader == 0 {
		return Container{}, false
	}
	if namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", leader)); err != nil || namespace == own {
		return Container{}, false
	}
	c := Container{ID: path, Name: oneLine(filepath.Base(path)), Engine: "oci", Path: path, Leader: leader}
	switch shim := parentArguments(leader); {
	case len(shim) == 0 || !strings.HasPrefix(filepath.Base(shim[0]), "containerd-shim"):
	case option(shim, "-namespace") == dockerNamespace: // its group was put elsewhere (docker run --cgroup-parent)
		c.ID, c.Engine = cmp.Or(option(shim, "-id"), path), "docker"
		c.Name = nameOf(c)
	default:
		c.Engine = "containerd"
	}
	return c, true
}

// named is the container whose group's path has the form that an engine gives.
func named(path string) (Container, bool) {
	for _, e := range engineForms {
		if m := e.form.FindStringSubmatch(path); m != nil {
			return Container{ID: strings.Join(m[1:], ""), Engine: e.engine, Path: path}, true
		}
	}
	return Container{}, false
}

// dockerNamespace is containerd's namespace of Docker's containers
// (moby, daemon/config/config.go: DefaultContainersNamespace).
const dockerNamespace = "moby"

// option is what follows an option on a command line; "" for none.
func option(arguments []string, name ...string) string {
	for i, a := range arguments[:max(len(arguments)-1, 0)] {
		if slices.Contains(name, a) {
			return arguments[i+1]
		}
	}
	return ""
}

// processes are those of a group itself.
func (f *files) processes(dir string) iter.Seq[int] {
	procs, err := f.once(filepath.Join(dir, "cgroup.procs"))
	procs = bytes.Clone(procs) // the next file that is read takes its place
	return func(yield func(int) bool) {
		for line := range bytes.FieldsSeq(procs) {
			// 0: of a namespace that we do not see
			if pid := int(integer(line)); err == nil && pid > 0 && !yield(pid) {
				return
			}
		}
	}
}

// holds reports whether a process is in a group itself.
func (f *files) holds(dir string, process int) bool {
	for pid := range f.processes(dir) {
		if pid == process {
			return true
		}
	}
	return false
}

// firstProcess is the process of a group itself that has run longest, 0 where it has none.
// Numbers wrap around: the lowest may be a child's that ends at once.
func (f *files) firstProcess(dir string) (first int) {
	var since int64
	for pid := range f.processes(dir) {
		if at, ok := f.begun(pid); ok && (first == 0 || at < since) {
			first, since = pid, at
		}
	}
	return first
}

// begun is when a process began, in ticks since the machine's boot (proc(5), starttime).
func (f *files) begun(pid int) (at int64, ok bool) {
	stat, err := f.once(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false // it has ended
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return 0, false
	}
	return integer(fields[19]), true
}

// firstBelow is the first process in a group's groups.
func (f *files) firstBelow(dir string) (pid int) {
	// An error is a group that has ended: it holds no process.
	_ = below(dir, func(one string) (into bool) {
		if pid == 0 {
			pid = f.firstProcess(one)
		}
		return pid == 0
	})
	return pid
}

// groups are the directories of a container's groups in all trees. Version 1
// has one a controller, whose paths may differ.
func groups(trees sys.Hierarchies, leader int, dir string, tree sys.Hierarchy) map[string]string {
	out := map[string]string{}
	of := func(h sys.Hierarchy, dir string) {
		if h.Version == 2 {
			out[""] = dir
		}
		for _, c := range h.Controllers {
			out[c] = dir
		}
	}
	of(tree, dir)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", leader))
	if err != nil {
		return out
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || parts[2] == "/" {
			continue
		}
		for _, h := range trees.All {
			if h.Path != tree.Path && (h.Version == 2 && parts[1] == "" || h.Version == 1 && slices.Contains(h.Controllers, strings.Split(parts[1], ",")[0])) {
				of(h, filepath.Join(h.Path, parts[2]))
			}
		}
	}
	return out
}

// nameOf is the engine's name for a container, where the engine keeps it in a
// file or on its helper's command line; else the short id.
func nameOf(c Container) string {
	switch c.Engine {
	case "docker":
		// The engine's own root may be elsewhere: then the short id serves.
		text, err := os.ReadFile(filepath.Join("/var/lib/docker/containers", c.ID, "config.v2.json"))
		if m := dockerName.FindSubmatch(text); err == nil && m != nil {
			return string(m[1])
		}
	case "podman":
		if name := option(parentArguments(c.Leader), "-n", "--name"); engineName.MatchString(name) {
			return name
		}
	}
	return c.short()
}

func (c *Container) short() string { return c.ID[:min(len(c.ID), 12)] }

// oneLine is a group's name, which any user with groups of his own chooses: what is not
// printed on one line is not a part of it.
func oneLine(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name)
}

// engineName is what Docker and Podman take as a container's name. A process that is
// not theirs may say another in their place.
var engineName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,254}$`)

var dockerName = regexp.MustCompile(`"Name":"/([a-zA-Z0-9][a-zA-Z0-9_.-]{0,254})"`)

// parentArguments are the command line of a process's parent, none where that
// cannot be read.
func parentArguments(pid int) []string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return nil
	}
	command, err := os.ReadFile(fmt.Sprintf("/proc/%s/cmdline", fields[1]))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimRight(string(command), "\x00"), "\x00")
}
