package hostinfo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/tarelab/tare/internal/sys"
)

func controllers(context.Context) (string, error) {
	trees, err := sys.Cgroups()
	if err != nil {
		return "", err
	}
	value, there := controllersOf(trees)
	for _, need := range []string{"cpu", "memory", "pids"} {
		if !slices.Contains(there, need) {
			return value, fmt.Errorf("the controller %s is not available", need)
		}
	}
	return value, nil
}

// controllersOf names the controllers by version, and lists them all. The named
// trees of version 1 ("name=systemd") have none.
func controllersOf(trees sys.Hierarchies) (value string, there []string) {
	var one, two []string
	unified := false
	for _, t := range trees.All {
		if t.Version == 2 {
			unified, two = true, t.Controllers
			continue
		}
		for _, c := range t.Controllers {
			if !strings.HasPrefix(c, "name=") {
				one = append(one, c)
			}
		}
	}
	slices.Sort(one)
	var parts []string
	if len(one) > 0 {
		parts = append(parts, "v1: "+strings.Join(one, " "))
	}
	if unified {
		parts = append(parts, "v2: "+cmp.Or(strings.Join(two, " "), "none"))
	}
	return strings.Join(parts, "; "), slices.Concat(one, two)
}

// writableCgroups makes a group in every hierarchy, moves a child into it and
// removes it.
func writableCgroups(ctx context.Context) (string, error) {
	trees, err := sys.Cgroups()
	if err != nil {
		return "", err
	}
	if len(trees.All) == 0 {
		return "", errors.New("no cgroup hierarchy is mounted")
	}
	for _, t := range trees.All {
		if err := useGroup(ctx, t.Dir(sys.ProbeGroup("write"))); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("a process entered a new group in each of %d hierarchies", len(trees.All)), nil
}

func useGroup(ctx context.Context, group string) (err error) {
	if err := os.Mkdir(group, 0o755); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sys.RemoveGroup(group)) }()
	// cpuset of version 1 takes no process before it has CPUs and memory.
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		to := filepath.Join(group, file)
		if _, err := os.Stat(to); err != nil || readLine(to) != "" {
			continue
		}
		if above := readLine(filepath.Join(filepath.Dir(group), file)); above != "" {
			if err := os.WriteFile(to, []byte(above), 0); err != nil {
				return err
			}
		}
	}
	_, err = child(ctx, nil, `echo $$ > "$1/cgroup.procs"`, group)
	return err
}

// cloneIntoCgroup starts a process inside a version 2 group and lets it tell
// where it is.
func cloneIntoCgroup(ctx context.Context) (value string, err error) {
	trees, err := sys.Cgroups()
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(trees.All, func(h sys.Hierarchy) bool { return h.Version == 2 })
	if at < 0 {
		return "", errors.New("cgroup v2 is not mounted")
	}
	name := sys.ProbeGroup("clone")
	group := trees.All[at].Dir(name)
	if err := os.Mkdir(group, 0o755); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, sys.RemoveGroup(group)) }()
	dir, err := os.Open(group)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	out, err := child(ctx, &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}, "cat /proc/self/cgroup")
	if err != nil {
		return "", err
	}
	if !strings.Contains(out, "0::") || !strings.Contains(out, name) {
		return "", fmt.Errorf("the child is elsewhere: %q", out)
	}
	return "clone3 with CLONE_INTO_CGROUP", nil
}
