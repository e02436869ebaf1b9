package drivertest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/fake"
	"github.com/tarelab/tare/internal/driver/native"
)

// claiming is a driver that says that it is a boundary, and may change what it is
// asked to run.
type claiming struct {
	driver.Driver
	change func(*driver.Spec)
}

func (c claiming) Properties() driver.Properties {
	p := c.Driver.Properties()
	p.Boundary, p.Isolated = driver.ContainerBoundary, true
	return p
}

func (c claiming) Prepare(ctx context.Context, spec driver.Spec, dir string) (driver.Instance, error) {
	if c.change != nil {
		c.change(&spec)
	}
	return c.Driver.Prepare(ctx, spec, dir)
}

// running is a driver whose payloads run by that function.
func running(p payload) driver.Driver {
	return fake.New("broken", func(int, driver.Spec) fake.Script { return fake.Script{Payload: p} })
}

// escaped are the mounts that mountsByPath made on the machine.
var escaped []string

// mountsByPath mounts on a path of the root as a2ee321 did: the kernel follows the
// links of the path on the machine.
func mountsByPath() payload {
	return func(ctx context.Context, spec driver.Spec) (driver.Exit, error) {
		at := filepath.Join(spec.Rootfs, "dev")
		link, lerr := os.Lstat(at)
		if info, err := os.Stat(at); err == nil && lerr == nil && info.IsDir() && link.Mode()&os.ModeSymlink != 0 {
			if err := syscall.Mount("tare-broken", at, "tmpfs", 0, "size=4k"); err != nil {
				return driver.Exit{}, err
			}
			real, err := filepath.EvalSymlinks(at)
			if err != nil {
				return driver.Exit{}, err
			}
			defer func() { escaped = append(escaped, real) }()
		}
		return driver.Exit{}, nil
	}
}

// TestEscapesCanFail has each escape check find a driver that lets payloads out.
func TestEscapesCanFail(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("the broken drivers run real payloads as root: run this test as root")
	}
	lab := New(t)
	rung := func(name string) driver.Driver {
		for _, d := range native.Drivers(lab) {
			if d.Name() == name {
				return d
			}
		}
		t.Fatalf("no driver %s", name)
		return nil
	}
	for _, c := range []struct {
		broken string
		check  string
		driver driver.Driver
		says   string
	}{
		{"mounts by path", "links lead nowhere", running(mountsByPath()), "mounted over the machine"},
		{"makes mount points by path", "links lead nowhere", running(func(_ context.Context, spec driver.Spec) (driver.Exit, error) {
			return driver.Exit{}, os.MkdirAll(filepath.Join(spec.Rootfs, "data/here/made"), 0o755)
		}), "made in a directory of the machine"},
		{"keeps all privileges", "kernel's paths", claiming{Driver: rung("native/cgroup")}, "core_pattern can be written"},
		{"hides no paths", "kernel's paths", claiming{Driver: rung("native/privileges")}, "can be read"},
		{"has no device rules", "foreign devices", claiming{Driver: rung("native/cgroup")}, "it can be opened"},
		{"makes nodes by the umask", "own devices", running(fake.Exec), ""},
		{"leaves a directory open", "no door", claiming{native.New(lab), func(s *driver.Spec) {
			s.Args = append([]string{shell, "-c", `exec 9</data; exec "$@"`, "sh"}, s.Args...)
		}}, "descriptor /proc/self/fd/9"},
		{"hands over the machine's /dev/null", "no door", claiming{Driver: rung("native/proc")}, "/proc/self/fd/0 is the machine's"},
		{"has no /proc", "no door", claiming{Driver: running(fake.Exec)}, "/proc/self/fd is missing"},
		{"waits for a flood", "flood", running(func(_ context.Context, spec driver.Spec) (driver.Exit, error) {
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			defer cancel()
			return fake.Exec(ctx, spec)
		}), "nobody reads"},
		{"ignores the pids limit", "fork bomb", running(fake.Exec), "a fork bomb made"},
		{"has no PID namespace", "kills its init", claiming{Driver: running(fake.Exec)}, "not 1"},
	} {
		t.Run(c.broken, func(t *testing.T) {
			s, err := newSuite(c.driver, Options{Lab: lab}, t.TempDir(), Token(t))
			if err != nil {
				t.Fatal(err)
			}
			err = s.guarded(t.Context(), named(t, c.check))
			var lacking *lackError
			if err == nil || errors.As(err, &lacking) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q with a driver that %s: got %v, want %q", c.check, c.broken, err, c.says)
			}
			s.killLeft(t)
			for _, at := range escaped {
				if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
					t.Error(err)
				}
			}
			escaped = nil
		})
	}
}
