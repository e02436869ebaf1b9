package sys

import (
	"os"
	"path/filepath"
	"testing"
)

// group makes files as the kernel has them in a group.
func group(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A group's limit of memory leaves what is not in use, and pages of files that nobody
// has read of late are not.
func TestMemoryThatALimitLeaves(t *testing.T) {
	const unlimited = "9223372036854771712\n"
	for name, c := range map[string]struct {
		version int
		files   map[string]string
		left    int64
		ok      bool
	}{
		"v2":            {2, map[string]string{"memory.max": "1000\n", "memory.current": "700\n", "memory.stat": "anon 500\ninactive_file 200\n"}, 500, true},
		"v2, no limit":  {2, map[string]string{"memory.max": "max\n", "memory.current": "700\n"}, 0, false},
		"v2, top group": {2, map[string]string{"memory.stat": "inactive_file 200\n"}, 0, false},
		"v1": {1, map[string]string{"memory.limit_in_bytes": "1000\n", "memory.usage_in_bytes": "700\n",
			"memory.stat": "inactive_file 1\ntotal_inactive_file 200\n"}, 500, true},
		"v1, no limit": {1, map[string]string{"memory.limit_in_bytes": unlimited, "memory.usage_in_bytes": "700\n"}, 0, false},
	} {
		if left, ok := (GroupLimit{"memory", c.version, group(t, c.files)}).Left(); left != c.left || ok != c.ok {
			t.Errorf("%s: %d, %t", name, left, ok)
		}
	}
}

// What a group has refused shows in the group whose limit it was.
func TestLimitsThatAreMet(t *testing.T) {
	for name, c := range map[string]struct {
		controller    string
		version       int
		before, after map[string]string
		met           bool
	}{
		"memory of version 2":    {"memory", 2, map[string]string{"memory.events.local": "max 3\noom 0\n"}, map[string]string{"memory.events.local": "max 9\noom 1\n"}, true},
		"memory was reclaimed":   {"memory", 2, map[string]string{"memory.events.local": "max 3\noom 0\n"}, map[string]string{"memory.events.local": "max 9\noom 0\n"}, false},
		"memory of version 1":    {"memory", 1, map[string]string{"memory.failcnt": "0\n"}, map[string]string{"memory.failcnt": "7\n"}, true},
		"processes":              {"pids", 2, map[string]string{"pids.events": "max 0\n"}, map[string]string{"pids.events": "max 1\n"}, true},
		"processes, by the peak": {"pids", 1, map[string]string{"pids.max": "60\n", "pids.events": "max 0\n", "pids.peak": "12\n"}, map[string]string{"pids.max": "60\n", "pids.events": "max 0\n", "pids.peak": "60\n"}, true},
		"processes fit":          {"pids", 1, map[string]string{"pids.max": "60\n", "pids.peak": "12\n"}, map[string]string{"pids.max": "60\n", "pids.peak": "59\n"}, false},
		"they once did not":      {"pids", 1, map[string]string{"pids.max": "60\n", "pids.peak": "60\n"}, map[string]string{"pids.max": "60\n", "pids.peak": "60\n"}, false},
		"an old kernel's":        {"pids", 1, nil, nil, false},
	} {
		before, after := GroupLimit{c.controller, c.version, group(t, c.before)}, GroupLimit{c.controller, c.version, group(t, c.after)}
		if met := after.Met() > before.Met(); met != c.met {
			t.Errorf("%s: from %d to %d", name, before.Met(), after.Met())
		}
	}
}

// A group's limit of processes counts the group's own, a machine's all of them.
func TestTasksUnderALimit(t *testing.T) {
	const all = 300
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"a group's":     {map[string]string{"pids.max": "60\n", "pids.current": "12\n"}, 12},
		"the machine's": {map[string]string{"pid_max": "32768\n"}, all},
	} {
		if got := TasksUnder(filepath.Join(group(t, c.files), "pids.max"), all); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
