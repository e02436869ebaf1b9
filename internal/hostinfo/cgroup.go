package hostinfo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
)

// v1Controllers are those that the kernel knows (include/linux/cgroup_subsys.h).
var v1Controllers = []string{"cpuset", "cpu", "cpuacct", "blkio", "memory", "devices", "freezer", "net_cls", "perf_event", "net_prio", "hugetlb", "pids", "rdma", "misc"}

// hierarchies are the mount points of version 1 by controller, and that of
// version 2, "" where it is not mounted.
func hierarchies() (one map[string]string, two string, err error) {
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return nil, "", fmt.Errorf("cgroup mounts: %w", err)
	}
	one = map[string]string{}
	for _, m := range mounts {
		if m.FSType == "cgroup2" {
			two = m.Mountpoint
			continue
		}
		for o := range strings.SplitSeq(m.VFSOptions, ",") {
			if slices.Contains(v1Controllers, o) {
				one[o] = m.Mountpoint
			}
		}
	}
	return one, two, nil
}

func controllers(context.Context) (string, error) {
	one, two, err := hierarchies()
	if err != nil {
		return "", err
	}
	var parts []string
	var there []string
	if len(one) > 0 {
		for _, c := range v1Controllers {
			if one[c] != "" {
				there = append(there, c)
			}
		}
		parts = append(parts, "v1: "+strings.Join(there, " "))
	}
	if two != "" {
		unified := strings.Fields(readText(filepath.Join(two, "cgroup.controllers")))
		there = append(there, unified...)
		if len(unified) == 0 {
			unified = []string{"none"}
		}
		parts = append(parts, "v2: "+strings.Join(unified, " "))
	}
	value := strings.Join(parts, "; ")
	for _, need := range []string{"cpu", "memory", "pids"} {
		if !slices.Contains(there, need) {
			return value, fmt.Errorf("the controller %s is not available", need)
		}
	}
	return value, nil
}

// probeGroup is the cgroup that a proof makes and removes; its name is the
// label under which tare's leavings are swept.
func probeGroup(purpose string) string { return fmt.Sprintf("tare-check-%s-%d", purpose, os.Getpid()) }

// writableCgroups makes a group in every hierarchy, moves a child into it and
// removes it.
func writableCgroups(ctx context.Context) (string, error) {
	one, two, err := hierarchies()
	if err != nil {
		return "", err
	}
	mounts := map[string]bool{}
	for _, m := range one {
		mounts[m] = true
	}
	if two != "" {
		mounts[two] = true
	}
	if len(mounts) == 0 {
		return "", errors.New("no cgroup hierarchy is mounted")
	}
	for m := range mounts {
		if err := useGroup(ctx, filepath.Join(m, probeGroup("write"))); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("a process entered a new group in each of %d hierarchies", len(mounts)), nil
}

func useGroup(ctx context.Context, group string) (err error) {
	if err := os.Mkdir(group, 0o755); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(group)) }()
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
	_, two, err := hierarchies()
	if err != nil {
		return "", err
	}
	if two == "" {
		return "", errors.New("cgroup v2 is not mounted")
	}
	name := probeGroup("clone")
	group := filepath.Join(two, name)
	if err := os.Mkdir(group, 0o755); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.Remove(group)) }()
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
