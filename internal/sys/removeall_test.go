package sys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// fewFiles is what a process may open that removes trees of more levels.
const fewFiles = 256

// TestRemoveAll: a tree is removed by a process that may open fewer files than the tree
// has levels, and what its links lead to stays.
func TestRemoveAll(t *testing.T) {
	if tree := os.Getenv("TARE_TEST_REMOVE"); tree != "" {
		if err := errors.Join(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: fewFiles, Max: fewFiles}), RemoveTree(tree)); err != nil {
			t.Fatal(err)
		}
		return
	}
	outside := t.TempDir()
	kept := filepath.Join(outside, "kept")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, build := range map[string]func(t *testing.T, tree string){
		"one branch": func(t *testing.T, tree string) { deepen(t, tree, "d", 5*fewFiles, outside) },
		"branches among shallow entries": func(t *testing.T, tree string) {
			widen(t, tree, 2*batch)
			for i := range 5 {
				deepen(t, tree, fmt.Sprint("a", i), 2*fewFiles+i, outside)
			}
			deepen(t, filepath.Join(tree, "full-7"), "b", levels, outside)
		},
		"branches of a deep directory": func(t *testing.T, tree string) {
			deepen(t, tree, "d", levels-1, outside)
			at := tree
			for range levels - 1 {
				at = filepath.Join(at, "d")
			}
			widen(t, at, batch)
			for i := range 3 {
				deepen(t, at, fmt.Sprint("a", i), 2*fewFiles, outside)
			}
		},
		"shallow entries": func(t *testing.T, tree string) { widen(t, tree, 3*batch) },
		"empty":           func(*testing.T, string) {},
	} {
		t.Run(name, func(t *testing.T) {
			tree := filepath.Join(t.TempDir(), "tree")
			if err := os.Mkdir(tree, 0o755); err != nil {
				t.Fatal(err)
			}
			build(t, tree)
			c := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestRemoveAll$")
			c.Env = append(os.Environ(), "TARE_TEST_REMOVE="+tree)
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%v: %.1000s", err, out)
			}
			if _, err := os.Lstat(tree); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the tree is left: %v", err)
			}
		})
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
}

// deepen makes n directories in dir, each inside the one before it, with a link to
// outside in each.
func deepen(t *testing.T, dir, name string, n int, outside string) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		err := errors.Join(unix.Mkdirat(at, name, 0o755), unix.Symlinkat(outside, at, name+"-link"))
		next, oerr := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err := errors.Join(err, oerr, unix.Close(at)); err != nil {
			t.Fatal(err)
		}
		at = next
	}
	_ = unix.Close(at) // nothing was written through it
}

// widen makes n files and n directories in dir, some of which hold a file.
func widen(t *testing.T, dir string, n int) {
	t.Helper()
	for i := range n {
		one := filepath.Join(dir, "full-"+strconv.Itoa(i))
		err := errors.Join(os.WriteFile(filepath.Join(dir, "file-"+strconv.Itoa(i)), nil, 0o600), os.Mkdir(one, 0o755))
		if err == nil && i%8 == 7 {
			err = os.WriteFile(filepath.Join(one, "file"), nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestRemoveAllPaths: what is missing is no error, a link is removed and not followed,
// and a path without a name of its own is refused.
func TestRemoveAllPaths(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := errors.Join(os.MkdirAll(filepath.Join(real, "a"), 0o755), os.Symlink("real", link), os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{link + "/", filepath.Join(dir, "none"), filepath.Join(dir, "none", "none"), filepath.Join(dir, "file"), ""} {
		if err := RemoveAll(gone); err != nil {
			t.Errorf("%s: %v", gone, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left: %v, %v", entries, err)
	}
	if _, err := os.Stat(filepath.Join(real, "a")); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
	t.Chdir(dir)
	for _, refused := range []string{".", "real/.."} { // without the check, the worst that goes is dir
		if err := RemoveAll(refused); !errors.Is(err, unix.EINVAL) {
			t.Errorf("%s: %v", refused, err)
		}
	}
	if err := RemoveAll(real + "/"); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(real); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
}

// TestRemoveAllStopsAtMounts: what is mounted in a tree is not removed, and all else is.
func TestRemoveAllStopsAtMounts(t *testing.T) {
	dir := t.TempDir()
	tree, other := filepath.Join(dir, "tree"), filepath.Join(dir, "other")
	at := filepath.Join(tree, "b", "mounted")
	if err := errors.Join(os.MkdirAll(at, 0o755), os.MkdirAll(filepath.Join(tree, "a"), 0o755), os.MkdirAll(filepath.Join(tree, "c"), 0o755),
		os.MkdirAll(filepath.Join(other, "kept"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(other, at, "", unix.MS_BIND, ""); err != nil {
		t.Fatal("this test mounts: run it as root: ", err)
	}
	err := RemoveAll(tree)
	if uerr := Unmount(at); uerr != nil {
		t.Error(uerr)
	}
	if !errors.Is(err, unix.EBUSY) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(other, "kept")); err != nil {
		t.Errorf("what was mounted: %v", err)
	}
	if left, err := os.ReadDir(tree); err != nil || len(left) != 1 {
		t.Errorf("left in the tree: %v, %v", left, err)
	}
}
