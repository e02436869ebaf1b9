// Package clitest runs scripts of the command line, as a user types it, in the tests
// of the packages that have verbs.
package clitest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tarelab/tare/internal/cli"
	"github.com/tarelab/tare/internal/sys"
)

// Main is a package's TestMain: its scripts can call tare, the command line with what
// env adds to the arguments, the environment and the streams, and the programs of
// others.
func Main(m *testing.M, env cli.Env, others map[string]func()) {
	programs := map[string]func(){"tare": func() {
		env.Args, env.Getenv, env.Stdout, env.Stderr, env.Version = os.Args[1:], os.Getenv, os.Stdout, os.Stderr, "test"
		os.Exit(cli.Main(env))
	}}
	for name, program := range others {
		programs[name] = program
	}
	testscript.Main(m, programs)
}

// Run runs the scripts of testdata/script, each with a state directory of its own, on
// the real targets of this machine. Images are content-addressed and shared, as
// between runs of a real user.
func Run(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("the command line is tested on real containers: run this as root")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	images := filepath.Join(t.TempDir(), "images")
	program, err := exec.LookPath("tare")
	if err != nil {
		t.Fatal(err)
	}
	openTo(t, filepath.Dir(filepath.Dir(program)))
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			openTo(t, filepath.Dir(e.WorkDir))
			// A script that fails between a kill -9 and its sweep must not have its
			// directory removed through what is still mounted there.
			e.Defer(func() {
				if _, err := sys.UnmountBelow(e.WorkDir); err != nil {
					t.Errorf("mounts of a script: %v", err)
				}
			})
			state := filepath.Join(e.WorkDir, "state")
			e.Setenv("TARE_STATE", state)
			e.Setenv("XDG_CACHE_HOME", cache)
			e.Setenv("HOME", e.WorkDir)
			return errors.Join(os.MkdirAll(images, 0o755), os.MkdirAll(state, 0o755), os.Symlink(images, filepath.Join(state, "images")))
		},
	})
}

// openTo lets other users into a directory of the tests, for the scripts that
// become one.
func openTo(t *testing.T, dir string) {
	t.Helper()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Error(err)
	}
}
