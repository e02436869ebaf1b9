package cli_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tarelab/tare/internal/cli"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/all"
	"github.com/tarelab/tare/internal/driver/fake"
	"github.com/tarelab/tare/internal/sys"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"tare": func() { os.Exit(tare()) },
		"tare-that-panics": func() { // in another goroutine than the verb's
			cli.Main(cli.Env{Args: []string{"runs"}, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: func(string) string {
				go panic("the wheel fell off")
				select {}
			}})
		},
	})
}

// A panic outside of the verb's goroutine does not exit with 2 either, the code of bad
// usage, as it did on a2ee321.
func TestPanicOfAGoroutine(t *testing.T) {
	c := exec.CommandContext(t.Context(), "tare-that-panics")
	c.Dir = t.TempDir() // of a core file
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGABRT {
		t.Errorf("ended with %v, want SIGABRT; it said %s", err, out)
	}
}

// tare is the real command line with the real targets, and a few scripted ones
// for faults that real targets do not produce on demand.
func tare() int {
	return cli.Main(cli.Env{
		Args: os.Args[1:], Getenv: os.Getenv, Stdout: os.Stdout, Stderr: os.Stderr, Version: "test", Foreign: all.Foreign(),
		Drivers: func(lab driver.Lab) []driver.Driver {
			return append(all.Drivers(lab),
				scripted("fake/fast", fake.Script{Ready: time.Millisecond, Run: time.Millisecond}),
				scripted("fake/slow", fake.Script{Ready: time.Millisecond, Run: 30 * time.Millisecond}),
				scripted("fake/hang", fake.Script{Hang: true}),
				scripted("fake/broken", fake.Script{StartErr: errors.New("the wheel fell off")}),
			)
		},
	})
}

func scripted(name string, s fake.Script) driver.Driver {
	return fake.New(name, func(int, driver.Spec) fake.Script { return s })
}

// TestCommandLine runs the scripts of testdata/script: the command line as a
// user types it, on the real targets of this machine.
func TestCommandLine(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("the command line is tested on real containers: run this as root")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	// Images are content-addressed and shared, as between runs of a real user.
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
