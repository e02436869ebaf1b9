package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// settle is how long what a run has made may take to go away after it: the kernel
// removes a mount namespace after its last process was reaped.
const settle = 3 * time.Second

// leavingNothing runs a measurement of tare, and fails where something is on the
// machine afterwards that was not there before.
func leavingNothing(run func() (usage, error)) (usage, error) {
	before, err := traces()
	if err != nil {
		return usage{}, err
	}
	u, err := run()
	left := leftSince(before)
	for until := time.Now().Add(settle); left != nil && time.Now().Before(until); left = leftSince(before) {
		time.Sleep(50 * time.Millisecond)
	}
	return u, errors.Join(err, left)
}

func leftSince(before []string) error {
	now, err := traces()
	if err != nil {
		return err
	}
	now = slices.DeleteFunc(now, func(one string) bool { return slices.Contains(before, one) })
	if len(now) > 0 {
		return fmt.Errorf("left behind: %s", strings.Join(now, ", "))
	}
	return nil
}

// traces are what runs of tare could leave on the machine: sessions, mounts,
// cgroups and processes of theirs, and links and network namespaces, whoever made
// those.
func traces() ([]string, error) {
	var all []string
	var errs []error
	for _, list := range []func() ([]string, error){sessionsLeft, mountsLeft, cgroupsLeft, processesLeft, linksLeft} {
		some, err := list()
		all, errs = append(all, some...), append(errs, err)
	}
	return all, errors.Join(errs...)
}

func sessionsLeft() ([]string, error) {
	return entries("session", filepath.Join(state(), "sessions"))
}

// entries are what a directory holds, nothing where there is none.
func entries(kind, dir string) ([]string, error) {
	all, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []string
	for _, e := range all {
		out = append(out, kind+" "+e.Name())
	}
	return out, nil
}

func mountsLeft() ([]string, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	var out []string
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); strings.HasPrefix(fields[4], state()+"/") {
			out = append(out, "mount "+fields[4])
		}
	}
	return out, err
}

func cgroupsLeft() ([]string, error) {
	trees, err := sys.Cgroups()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, tree := range trees.All {
		err = filepath.WalkDir(tree.Dir(driver.Label), func(at string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // never made, or gone meanwhile
			}
			if err == nil && e.IsDir() {
				out = append(out, "cgroup "+at)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// processesLeft are those in a cgroup of tare, or whose command line names its
// state, as those of its engines do.
func processesLeft() ([]string, error) {
	all, err := filepath.Glob("/proc/[0-9]*")
	var out []string
	for _, dir := range all {
		group, _ := os.ReadFile(filepath.Join(dir, "cgroup")) // of a process that has ended there is neither
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if bytes.Contains(group, []byte(":/"+driver.Label+"/")) || bytes.Contains(line, []byte(state()+"/")) {
			out = append(out, fmt.Sprintf("process %s (%.80q)", filepath.Base(dir), bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return out, err
}

func linksLeft() ([]string, error) {
	links, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	out, err := entries("network namespace", "/run/netns")
	for _, l := range links {
		out = append(out, "link "+l.Name)
	}
	return out, err
}
