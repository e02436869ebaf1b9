package lab

import (
	"context"
	"errors"
	"testing"

	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/target"
	"github.com/tarelab/tare/internal/target/fake"
)

// refusing is a driver whose binary is there and does not work.
type refusing struct {
	*fake.Driver
	facts target.Facts
	asked int
}

func (r *refusing) Check(context.Context) (target.Facts, error) {
	r.asked++
	return r.facts, &target.CannotError{Target: "fake", Lacks: "a guest that runs"}
}

// A failure that was seen twice is believed while the binary is the same.
func TestFailuresAreKept(t *testing.T) {
	digest, err := sys.FileDigest("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		digest string
		fresh  bool
		asked  int // of four times
	}{
		"the same binary":  {digest, false, 2},
		"another binary":   {"sha256:0", false, 4},
		"no binary at all": {"", false, 4},
		"proven anew":      {digest, true, 4},
	} {
		l := &Lab{config: Config{StateDir: t.TempDir()}, session: &session{name: "s0"}}
		d := &refusing{Driver: fake.New("fake", nil), facts: target.Facts{Path: "/proc/self/exe", Digest: c.digest}}
		for range 4 {
			var cannot *target.CannotError
			if f := l.Check(t.Context(), []target.Driver{d}, c.fresh); !errors.As(f[0].Err, &cannot) {
				t.Errorf("%s: %+v", name, f[0])
			}
		}
		if d.asked != c.asked {
			t.Errorf("%s: proven %d times of 4, not %d", name, d.asked, c.asked)
		}
	}
}
