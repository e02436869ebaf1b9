package oci

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/drivertest"
	"github.com/tarelab/tare/internal/sys"
)

// contract runs the suite on the runtime of that name.
func contract(t *testing.T, name string) {
	t.Helper()
	lab := drivertest.New(t)
	r := named(t, name)
	missing := r
	missing.Binary = r.Binary + "-that-is-missing"
	drivertest.Run(t, New(lab, r), drivertest.Options{Lab: lab, Missing: New(lab, missing), MissingName: missing.Binary, Again: unsealed})
}

func named(t *testing.T, name string) Runtime {
	t.Helper()
	for _, r := range Runtimes() {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("no runtime %q", name)
	return Runtime{}
}

func TestRunc(t *testing.T)  { contract(t, "runc") }
func TestCrun(t *testing.T)  { contract(t, "crun") }
func TestRunsc(t *testing.T) { contract(t, "runsc") }

// TestNothingLiesBelowTheCover looks under the mount of cgroup v2 for what crun
// would make there if the tree had been unmounted for it instead of covered.
func TestNothingLiesBelowTheCover(t *testing.T) {
	trees, err := sys.Cgroups()
	if err != nil {
		t.Fatal(err)
	}
	tree, ok := trees.Unified()
	if !ok || trees.Mode != sys.Hybrid {
		t.Skip("the machine's cgroups are not hybrid")
	}
	// A private copy of the mounts, without the tree.
	list := func() string {
		out, err := exec.Command("unshare", "--mount", "sh", "-c", `umount "$1" && ls -R "$1"`, "sh", tree.Path).CombinedOutput()
		if err != nil {
			t.Fatalf("look below %s: %v: %s", tree.Path, err, out)
		}
		return string(out)
	}
	before := list()
	if _, err := New(drivertest.New(t), crun()).Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := list(); after != before {
		t.Errorf("below %s there was %q, and there is %q", tree.Path, before, after)
	}
}

// unsealed is true of youki's copy of itself that the kernel would not seal: a page of
// a file in memory that something else looks at at that moment makes F_SEAL_WRITE fail
// with EBUSY (memfd_wait_for_pins, mm/memfd.c), and youki 0.7.0 does not try again.
// Seen once; that is no driver's doing.
func unsealed(err error) bool {
	return strings.Contains(err.Error(), "failed to seal /proc/self/exe")
}

// TestYouki may skip: it is built only where Rust is.
func TestYouki(t *testing.T) {
	if _, err := New(drivertest.New(t), youki()).Locate(); err != nil {
		t.Skipf("youki is not installed (make tools, with cargo): %v", err)
	}
	contract(t, "youki")
}

// TestPlatforms sees that a platform of runsc either passes its check or says
// what the machine lacks for it.
func TestPlatforms(t *testing.T) {
	for _, name := range []string{"runsc/ptrace", "runsc/kvm"} {
		t.Run(name, func(t *testing.T) {
			facts, err := New(drivertest.New(t), named(t, name)).Check(t.Context())
			var cannot *driver.CannotError
			switch {
			case errors.As(err, &cannot):
				t.Log(cannot)
			case err != nil:
				t.Error(err)
			case facts.Notes["platform"] == "" || facts.Version == "" || !strings.HasPrefix(facts.Digest, "sha256:"):
				t.Errorf("facts %+v", facts)
			}
		})
	}
}

// TestLocate sees the laboratory's own directories come before PATH, what is no
// program passed over, and a CannotError where there is none.
func TestLocate(t *testing.T) {
	first, second, path := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("PATH", path)
	d := New(driver.Lab{ToolDirs: []string{first, second}}, Runtime{Name: "some", Binary: "some-runtime", Remedy: "make some"})
	var cannot *driver.CannotError
	if got, err := d.Locate(); !errors.As(err, &cannot) || cannot.Remedy != "make some" || got != "" {
		t.Errorf("without a binary: got %q, %v; want a CannotError with the remedy", got, err)
	}
	if err := os.Mkdir(filepath.Join(first, "some-runtime"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{path, second} {
		want := filepath.Join(dir, "some-runtime")
		if err := os.WriteFile(want, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if got, err := d.Locate(); got != want || err != nil {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
}
