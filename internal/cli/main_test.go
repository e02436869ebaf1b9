package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarelab/tare/internal/driver/all"
)

// The first signal has all that is under way finished, and says so; a second Ctrl-C or
// SIGTERM leaves, and no other signal does. On a2ee321 SIGTERM never left.
func TestHeed(t *testing.T) {
	for name, c := range map[string]struct {
		signals          []os.Signal
		apart            time.Duration
		finished, leaves int
	}{
		"none":                   {nil, 0, 0, 0},
		"Ctrl-C":                 {[]os.Signal{os.Interrupt}, 0, 1, 0},
		"twice":                  {[]os.Signal{os.Interrupt, os.Interrupt}, oneWish, 1, 1},
		"a terminal that closes": {[]os.Signal{syscall.SIGHUP, syscall.SIGHUP}, oneWish, 1, 0},
		"a supervisor, twice":    {[]os.Signal{syscall.SIGTERM, syscall.SIGTERM}, oneWish, 1, 1},
		"ended by another":       {[]os.Signal{syscall.SIGTERM, os.Interrupt}, 0, 1, 1},
		"timeout":                {[]os.Signal{syscall.SIGTERM, syscall.SIGTERM}, 0, 1, 0},
		"timeout --signal INT":   {[]os.Signal{os.Interrupt, os.Interrupt}, 0, 1, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			signals := make(chan os.Signal)
			go func() {
				for _, s := range c.signals {
					signals <- s
					time.Sleep(c.apart)
				}
				close(signals)
			}()
			var said strings.Builder
			finished, left := 0, 0
			heed(signals, &said, time.Hour, func() { finished++ }, func() { left++ })
			if finished != c.finished || left != c.leaves || strings.Contains(said.String(), "tare sweep") != (c.finished > 0) {
				t.Errorf("%s: finished %d times, left %d times, said %q", name, finished, left, said.String())
			}
		})
	}
}

// A verb that does not heed one SIGTERM ends all the same: on a2ee321 it ran until it
// was killed. Ctrl-C has a user who can press it again.
func TestSIGTERMEndsABlockedVerb(t *testing.T) {
	for _, c := range []struct {
		signal os.Signal
		leaves bool
	}{{syscall.SIGTERM, true}, {syscall.SIGHUP, true}, {os.Interrupt, false}} {
		signals, left := make(chan os.Signal, 1), make(chan bool, 1)
		signals <- c.signal
		time.AfterFunc(300*time.Millisecond, func() { close(signals) })
		heed(signals, io.Discard, 10*time.Millisecond, func() {}, func() { left <- true })
		if (len(left) == 1) != c.leaves {
			t.Errorf("%v: left is %v, want %v", c.signal, len(left) == 1, c.leaves)
		}
	}
}

// A panic is tare's fault, not bad usage: on a2ee321 it exited with 2.
func TestPanicIsTheLaboratorys(t *testing.T) {
	var out, diagnostics bytes.Buffer
	got := Main(Env{Args: []string{"runs"}, Stdout: &out, Stderr: &diagnostics, Drivers: all.Drivers, Version: "test",
		Getenv: func(string) string { panic("the wheel fell off") }})
	if got != exitLaboratory || !strings.Contains(diagnostics.String(), "the wheel fell off") {
		t.Errorf("exit code %d, said %q", got, diagnostics.String())
	}
}

// Root does not run tools from the cache of the user who called "sudo -E", as it did on
// a2ee321.
func TestCacheOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to own files as another user")
	}
	home := t.TempDir()
	env := Env{Getenv: func(name string) string { return map[string]string{"HOME": home}[name] }, Drivers: all.Drivers}
	want := filepath.Join(home, ".cache", "tare")
	if got := env.cacheDir(); got != want {
		t.Fatalf("root's own: got %q, want %q", got, want)
	}
	if err := os.Chown(home, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	if got := env.cacheDir(); strings.HasPrefix(got, home) {
		t.Errorf("another user's: got %q", got)
	}
	if err := errors.Join(os.Chown(home, 0, 0), os.Mkdir(filepath.Join(home, ".cache"), 0o700), os.Chmod(filepath.Join(home, ".cache"), 0o777)); err != nil {
		t.Fatal(err)
	}
	if got := env.cacheDir(); strings.HasPrefix(got, home) {
		t.Errorf("one that everybody may write: got %q", got)
	}
	if err := errors.Join(os.Remove(filepath.Join(home, ".cache")), os.Symlink("/nonexistent/other", filepath.Join(home, ".cache"))); err != nil {
		t.Fatal(err)
	}
	if got := env.cacheDir(); strings.HasPrefix(got, home) {
		t.Errorf("a link that dangles: got %q", got)
	}
}
