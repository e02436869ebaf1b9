package torture

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

var shared = flag.Bool("shared", false, "others use containers on this machine meanwhile: only what names the test's own directories, or its sessions, is compared")

// snapshot is what is on the machine, a line each.
type snapshot []string

func (s snapshot) without(before snapshot) []string {
	var more []string
	for _, line := range s {
		if !slices.Contains(before, line) {
			more = append(more, line)
		}
	}
	return more
}

// snapshot lists processes, mounts and files of the test, and of the whole machine
// cgroups, links, named network namespaces, packet filter rules, modules and settings.
func (r *rig) snapshot() snapshot {
	r.Helper()
	all := append(r.processes(), r.mounts()...)
	for _, dir := range []string{r.temporary, filepath.Join(r.state, "sessions"), filepath.Join(r.state, "images")} {
		for _, name := range names(dir) {
			if dir != filepath.Join(r.state, "images") || strings.HasPrefix(name, "tmp-") {
				all = append(all, "file "+filepath.Join(dir, name))
			}
		}
	}
	if *shared {
		return slices.Concat(all, r.ownGroups())
	}
	all = append(all, r.groups()...)
	for what, dir := range map[string]string{"link": "/sys/class/net", "network namespace": "/run/netns"} {
		for _, name := range names(dir) {
			all = append(all, what+" "+name)
		}
	}
	for what, command := range map[string][]string{"rule": {"iptables-save"}, "nft rule": {"nft", "list", "ruleset"}} {
		out, err := exec.Command(command[0], command[1:]...).Output()
		if err != nil {
			continue // the machine has no such filter
		}
		for line := range strings.Lines(counters.ReplaceAllString(string(out), "")) {
			if !strings.HasPrefix(line, "#") {
				all = append(all, what+" "+strings.TrimSpace(line))
			}
		}
	}
	for _, name := range names("/sys/module") {
		all = append(all, "module "+name)
	}
	return append(all, settings()...)
}

// counters are what rules have counted.
var counters = regexp.MustCompile(`\[\d+:\d+\]|packets \d+ bytes \d+`)

// names are those in a directory; none where it is not there.
func names(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	all := make([]string, len(entries))
	for i, e := range entries {
		all[i] = e.Name()
	}
	return all
}

// processes are those whose command line or environment names the test's store, but for
// zombies, which their parents reap.
func (r *rig) processes() []string {
	var all []string
	for _, pid := range names("/proc") {
		if pid[0] < '0' || pid[0] > '9' {
			continue
		}
		for _, file := range []string{"cmdline", "environ"} {
			text, err := os.ReadFile(filepath.Join("/proc", pid, file))
			if err == nil && bytes.Contains(text, []byte(r.state)) {
				line, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
				if err == nil && len(line) > 0 {
					all = append(all, fmt.Sprintf("process %s %q", pid, bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
				}
				break
			}
		}
	}
	return all
}

func (r *rig) mounts() []string {
	r.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		r.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		if !*shared || strings.Contains(line, r.state) || strings.Contains(line, r.temporary) {
			all = append(all, "mount "+strings.TrimSpace(line))
		}
	}
	return all
}

// othersGroups are the groups at the roots of all hierarchies, but for tare's: what their
// owners make below them, at any time, is theirs.
func othersGroups(t *testing.T) map[string]bool {
	hierarchies, err := sys.Cgroups()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, h := range hierarchies.All {
		for _, name := range names(h.Path) {
			all[filepath.Join(h.Path, name)] = name != driver.Label
		}
	}
	return all
}

// groups are all cgroups but others', and those of the machine's own services.
func (r *rig) groups() []string {
	var all []string
	// Groups come and go while they are listed: what cannot be read is gone.
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && r.others[path] {
			return filepath.SkipDir
		}
		if err == nil && d.IsDir() && !strings.Contains(path, ".slice") && !strings.Contains(path, ".service") {
			all = append(all, "cgroup "+path)
		}
		return nil
	})
	return all
}

// ownGroups are the cgroups of the sessions that were seen in the test's store.
func (r *rig) ownGroups() []string {
	return slices.DeleteFunc(r.groups(), func(group string) bool {
		return !slices.ContainsFunc(strings.Split(group, "/"), func(part string) bool { return r.sessions[part] })
	})
}

// settings are those of the machine that containers depend on or that tare may change.
func settings() []string {
	var all []string
	for _, pattern := range []string{"/proc/sys/net/ipv4/neigh/default/gc_thresh*", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/bridge/*",
		"/proc/sys/kernel/core_pattern", "/proc/sys/fs/inotify/*", "/proc/sys/vm/overcommit_memory", "/sys/kernel/mm/ksm/run", "/sys/kernel/mm/ksm/pages_to_scan", "/sys/kernel/mm/ksm/sleep_millisecs"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			continue // the patterns are well formed
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil {
				all = append(all, fmt.Sprintf("setting %s = %q", file, text))
			}
		}
	}
	return all
}
