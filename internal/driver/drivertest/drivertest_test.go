package drivertest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/fake"
)

type payload = func(context.Context, driver.Spec) (driver.Exit, error)

// withSpec is a driver that runs another payload than it was asked to.
func withSpec(change func(*driver.Spec)) payload {
	return func(ctx context.Context, spec driver.Spec) (driver.Exit, error) {
		change(&spec)
		return fake.Exec(ctx, spec)
	}
}

// withExit is a driver that tells another end than the payload had.
func withExit(change func(driver.Exit) (driver.Exit, error)) payload {
	return func(ctx context.Context, spec driver.Spec) (driver.Exit, error) {
		exit, err := fake.Exec(ctx, spec)
		if err != nil {
			return exit, err
		}
		return change(exit)
	}
}

// spoilStdout runs the payload and passes its standard output on changed.
func spoilStdout(change func(string) string) payload {
	return func(ctx context.Context, spec driver.Spec) (driver.Exit, error) {
		out := spec.Stdio.Stdout
		file, err := os.CreateTemp("", "drivertest")
		if err != nil {
			return driver.Exit{}, err
		}
		defer os.Remove(file.Name())
		defer file.Close()
		spec.Stdio.Stdout = file
		exit, err := fake.Exec(ctx, spec)
		data, rerr := os.ReadFile(file.Name())
		_, werr := out.WriteString(change(string(data)))
		return exit, errors.Join(err, rerr, werr)
	}
}

// TestChecksCanFail breaks a driver in one way at a time. The check that
// guards against it must fail.
func TestChecksCanFail(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("the broken drivers run real payloads by chroot: run this test as root")
	}
	lab := New(t)
	if err := syscall.Mknod(filepath.Join(lab.TestRootfs, "dev/null"), syscall.S_IFCHR|0o666, 1<<8|3); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		broken  string
		check   string
		payload payload
	}{
		{"says 0 whatever happens", "exit codes", withExit(func(driver.Exit) (driver.Exit, error) { return driver.Exit{}, nil })},
		{"takes codes above 128 for signals", "exit codes", withExit(func(e driver.Exit) (driver.Exit, error) {
			if e.Code > 128 {
				return driver.Exit{Signal: e.Code - 128}, nil
			}
			return e, nil
		})},
		{"loses the signal", "signals", withExit(func(e driver.Exit) (driver.Exit, error) { return driver.Exit{Code: 1}, nil })},
		{"takes 137 for a kill", "a shell's 128+n stays a code", withExit(func(driver.Exit) (driver.Exit, error) { return driver.Exit{Signal: 9}, nil })},
		{"splits arguments at blanks", "arguments", withSpec(func(s *driver.Spec) { s.Args = append(s.Args[:6:6], strings.Fields(strings.Join(s.Args[6:], " "))...) })},
		{"drops empty arguments", "arguments", withSpec(func(s *driver.Spec) {
			s.Args = slices.DeleteFunc(slices.Clone(s.Args), func(a string) bool { return a == "" })
		})},
		{"drops a variable", "environment", withSpec(func(s *driver.Spec) { s.Env = s.Env[1:] })},
		{"inherits", "nothing inherited", withSpec(func(s *driver.Spec) { s.Env = append(os.Environ(), s.Env...) })},
		{"stays in /", "working directory", withSpec(func(s *driver.Spec) { s.Cwd = "" })},
		{"stays root", "user", withSpec(func(s *driver.Spec) { s.User = driver.User{} })},
		{"mixes the streams", "streams apart and exact", withSpec(func(s *driver.Spec) { s.Stdio.Stderr = s.Stdio.Stdout })},
		{"translates line ends", "streams apart and exact", spoilStdout(func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") })},
		{"cuts a byte off", "big streams", spoilStdout(func(s string) string { return s[:len(s)-1] })},
		{"ignores stdin", "stdin", withSpec(func(s *driver.Spec) { s.Stdio.Stdin = nil })},
		{"never acts", "marks in order", spoilStdout(func(string) string { return "" })},
		{"ignores mounts", "mounts", fake.Exec},
		{"provides no devices", "devices and proc", fake.Exec},
		{"writes to the rootfs", "rootfs is not written to", fake.Exec},
		{"ignores the memory limit", "memory limit", fake.Exec},
		{"ignores the pids limit", "pids limit", fake.Exec},
		{"ignores the cpuset", "cpuset", fake.Exec},
		{"leaves processes", "payload leaves processes", fake.Exec},
		{"cannot be cancelled", "cancel while waiting", func(_ context.Context, spec driver.Spec) (driver.Exit, error) {
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			defer cancel()
			return fake.Exec(ctx, spec)
		}},
		{"swallows a missing payload", "payload does not exist", func(ctx context.Context, spec driver.Spec) (driver.Exit, error) {
			exit, err := fake.Exec(ctx, spec)
			if errors.Is(err, os.ErrNotExist) {
				return driver.Exit{Code: 1}, nil
			}
			return exit, err
		}},
		{"leaves a file", "close twice", func(ctx context.Context, spec driver.Spec) (driver.Exit, error) {
			name := filepath.Join(os.TempDir(), spec.ID)
			t.Cleanup(func() { os.Remove(name) })
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				return driver.Exit{}, err
			}
			return fake.Exec(ctx, spec)
		}},
		{"leaves a descriptor", "close twice", func(ctx context.Context, spec driver.Spec) (driver.Exit, error) {
			f, err := os.Open(os.DevNull)
			if err != nil {
				return driver.Exit{}, err
			}
			t.Cleanup(func() { f.Close() })
			return fake.Exec(ctx, spec)
		}},
		{"leaves a zombie", "close twice", func(ctx context.Context, spec driver.Spec) (driver.Exit, error) {
			c := exec.Command("/bin/true")
			if err := c.Start(); err != nil {
				return driver.Exit{}, err
			}
			t.Cleanup(func() { _ = c.Wait() })
			return fake.Exec(ctx, spec)
		}},
		{"leaves a mount", "close twice", func(ctx context.Context, spec driver.Spec) (driver.Exit, error) {
			dir := t.TempDir()
			if err := syscall.Mount(driver.Label+"-"+spec.ID, dir, "tmpfs", 0, "size=4k"); err != nil {
				return driver.Exit{}, err
			}
			t.Cleanup(func() {
				if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
					t.Error(err)
				}
			})
			return fake.Exec(ctx, spec)
		}},
	} {
		t.Run(c.broken, func(t *testing.T) {
			d := fake.New("broken", func(int, driver.Spec) fake.Script { return fake.Script{Payload: c.payload} })
			s, err := newSuite(d, Options{Lab: lab}, t.TempDir(), Token(t))
			if err != nil {
				t.Fatal(err)
			}
			err = s.guarded(t.Context(), named(t, c.check))
			var lacking *lackError
			if err == nil || errors.As(err, &lacking) {
				t.Errorf("%q passed (%v) with a driver that %s", c.check, err, c.broken)
			}
			s.killLeft(t)
		})
	}
}

func named(t *testing.T, name string) check {
	t.Helper()
	for _, c := range checks() {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("no check %q", name)
	return check{}
}

// killLeft ends what a broken driver left, found by the suite's own token.
func (s *suite) killLeft(t *testing.T) {
	t.Helper()
	left, err := s.ourProcesses()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range left {
		pid, _, _ := strings.Cut(text, " ")
		if p := atoi(pid); s.namedIn(p) {
			_ = syscall.Kill(p, syscall.SIGKILL) // it may have ended meanwhile
		}
	}
}

func atoi(s string) (n int) {
	for _, c := range s {
		n = 10*n + int(c-'0')
	}
	return n
}

func TestMissingMustBeACannotErrorThatNames(t *testing.T) {
	d := fake.New("right", nil)
	for name, err := range map[string]error{
		"another error": errors.New("gone"),
		"no name":       &driver.CannotError{Target: "x", Lacks: "something is missing"},
	} {
		missing := fake.New("missing", nil)
		missing.Err = err
		s := &suite{driver: d, opts: Options{Missing: missing, MissingName: "the-binary"}}
		if checkMissing(t.Context(), s) == nil {
			t.Errorf("%s passed", name)
		}
	}
}

func TestPropertiesMustBeSet(t *testing.T) {
	for name, change := range map[string]func(*driver.Properties){
		"parallel": func(p *driver.Properties) { p.MaxParallel = 3 },
		"streams":  func(p *driver.Properties) { p.StreamBytes = 1 << 20 },
		"boundary": func(p *driver.Properties) { p.Boundary = "" },
		"family":   func(p *driver.Properties) { p.Family = "" },
		"start":    func(p *driver.Properties) { p.StartTime = 0 },
	} {
		d := fake.New("x", nil)
		change(&d.Props)
		if checkProperties(t.Context(), &suite{driver: d, props: d.Props}) == nil {
			t.Errorf("%s passed", name)
		}
	}
}
