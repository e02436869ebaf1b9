package lab

import (
	"context"
	"errors"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/drivertest/oldkernel"
	"github.com/tarelab/tare/internal/driver/fake"
	"github.com/tarelab/tare/internal/sys"
)

// refusing is a driver whose binary is there and does not work.
type refusing struct {
	*fake.Driver
	facts driver.Facts
	stale bool // what its check depended on has changed
	asked int
	wiped int
}

func (r *refusing) Stale(driver.Facts) bool { return r.stale }

func (r *refusing) Properties() driver.Properties {
	p := r.Driver.Properties()
	p.Machine = &driver.Machine{Forget: func() error { r.wiped++; return nil }}
	return p
}

func (r *refusing) Check(context.Context) (driver.Facts, error) {
	r.asked++
	return r.facts, &driver.CannotError{Target: "fake", Lacks: "a guest that runs"}
}

// A failure that was seen twice is believed while the binary is the same, and what
// else the driver knows of. A driver keeps nothing of its own where all is asked anew.
func TestFailuresAreKept(t *testing.T) {
	digest, err := sys.FileDigest("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		digest string
		stale  bool
		fresh  bool
		asked  int // of four times
	}{
		"the same binary":    {digest, false, false, 2},
		"another binary":     {"sha256:0", false, false, 4},
		"no binary at all":   {"", false, false, 4},
		"proven anew":        {digest, false, true, 4},
		"other surroundings": {digest, true, false, 4},
	} {
		l := &Lab{config: Config{StateDir: t.TempDir()}, session: &session{name: "s0"}}
		d := &refusing{Driver: fake.New("fake", nil), facts: driver.Facts{Path: "/proc/self/exe", Digest: c.digest}, stale: c.stale}
		for range 4 {
			var cannot *driver.CannotError
			if f := l.Check(t.Context(), []driver.Driver{d}, c.fresh); !errors.As(f[0].Err, &cannot) {
				t.Errorf("%s: %+v", name, f[0])
			}
		}
		if (d.wiped == 4) != c.fresh {
			t.Errorf("%s: forgot %d times", name, d.wiped)
		}
		if d.asked != c.asked {
			t.Errorf("%s: proven %d times of 4, not %d", name, d.asked, c.asked)
		}
	}
}

func TestMain(m *testing.M) { oldkernel.Main(m) }

func TestOldKernelRefusesByName(t *testing.T) { oldkernel.Rerun(t, "5.4", "^TestProgramNeedsCall$") }

// TestProgramNeedsCall: a target whose own program needs a call that the kernel has not is
// refused by its name and the call's, without being tried; others are not.
func TestProgramNeedsCall(t *testing.T) {
	for _, name := range []string{"openat2", sys.CallSeccomp} {
		l := &Lab{config: Config{StateDir: t.TempDir()}, session: &session{name: "s0"}}
		inner := fake.New("fake", nil)
		inner.Props.Calls = []string{name}
		d := &refusing{Driver: inner}
		f := l.Check(t.Context(), []driver.Driver{d}, true)
		if name == "openat2" && oldkernel.Kernel() != "" {
			const want = "fake cannot run here: this kernel has no openat2 (Linux 5.6), which its program needs (a newer kernel, or another target)"
			if d.asked != 0 || f[0].Err == nil || f[0].Err.Error() != want {
				t.Errorf("asked %d times, got %v, want %s", d.asked, f[0].Err, want)
			}
		} else if d.asked != 1 {
			t.Errorf("%s: asked %d times: %v", name, d.asked, f[0].Err)
		}
	}
}
