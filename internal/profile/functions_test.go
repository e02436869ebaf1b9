package profile

import (
	"bufio"
	"flag"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The lists in testdata hold, of each kernel, those of the table's functions that it
// has. They are made of its System.map (in Debian's linux-image-VERSION-dbg), or of
// /proc/kallsyms, one at a time:
//
//	go test ./internal/profile -run TestFunctions -map System.map-6.1.0-56-cloud-amd64 -into testdata/functions-6.1.txt
var (
	mapFile  = flag.String("map", "", "make a list of a kernel's functions from this System.map")
	intoFile = flag.String("into", "", "and write it to this file")
)

// folded are functions of the sources that the compilers of these kernels have put
// into their callers, and such as only older or newer kernels have.
var folded = []string{
	"cgroup_css_set_fork", "de_thread", "default_device_exit_net", "do_change_type", "do_umount", "exit_notify", "lookup_slow",
	"namespace_lock", "open_last_lookups", "rtnl_net_lock", "rtnl_nets_lock", "wait_for_vfork_done",
	"flush_workqueue",                                                     // before Linux 5.19
	"__start_dirop", "__start_removing", "path_pivot_root", "start_dirop", // after 6.18
}

// functionsOf reads the functions of a System.map or of a list, which has names alone.
func functionsOf(t *testing.T, r io.Reader) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) == 0 || fields[0] == "#":
		case len(fields) == 1:
			found[fields[0]] = true
		case len(fields) >= 3 && strings.Contains("tTwW", fields[1]):
			found[plain(fields[2])] = true
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

func functionsIn(t *testing.T, file string) map[string]bool {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return functionsOf(t, f)
}

// listFunctions writes down which functions of the table a kernel has.
func listFunctions(t *testing.T) {
	t.Helper()
	all := functionsIn(t, *mapFile)
	have := map[string]bool{}
	for _, c := range clues {
		if all[c.function] {
			have[c.function] = true
		}
	}
	text := "# functions of names.go in " + filepath.Base(*mapFile) + "\n" + strings.Join(slices.Sorted(maps.Keys(have)), "\n") + "\n"
	if err := os.WriteFile(*intoFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// namable says which locks of the table a kernel's functions can tell.
func namable(functions map[string]bool) map[string]bool {
	locks := map[string]bool{}
	for _, c := range clues {
		if functions[c.function] {
			locks[c.lock] = true
		}
	}
	return locks
}

// TestFunctionsOfKernels holds the table against the functions of real kernels: one
// that was renamed leaves its lock without a clue, or stands in no kernel.
func TestFunctionsOfKernels(t *testing.T) {
	if *mapFile != "" {
		listFunctions(t)
	}
	files, err := filepath.Glob("testdata/functions-*.txt")
	if err != nil || len(files) < 3 {
		t.Fatalf("lists %q, %v", files, err)
	}
	somewhere := map[string]bool{}
	for _, file := range files {
		functions := functionsIn(t, file)
		maps.Copy(somewhere, functions)
		for _, lock := range tracked {
			if !namable(functions)[lock.lock] {
				t.Errorf("%s: no function of the table tells %s, which has a metric", file, lock.lock)
			}
		}
	}
	for _, c := range clues {
		if known := slices.Contains(folded, c.function); somewhere[c.function] == known {
			t.Errorf("%s: in a kernel's list %t, said to be folded %t", c.function, somewhere[c.function], known)
		}
	}
}

// TestFunctionsOfThisKernel does the same with the one that runs, which may be newer
// than the table.
func TestFunctionsOfThisKernel(t *testing.T) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	functions := functionsOf(t, f)
	if !functions["vfs_read"] {
		t.Skip("this kernel does not tell its functions")
	}
	locks := namable(functions)
	for _, lock := range tracked {
		if !locks[lock.lock] {
			t.Errorf("no function of the table is in this kernel that tells %s, which has a metric: look for what was renamed", lock.lock)
		}
	}
}
