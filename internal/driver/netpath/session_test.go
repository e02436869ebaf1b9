package netpath

import (
	"context"
	"errors"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/fake"
	"github.com/tarelab/tare/internal/net"
)

// kept is a driver with an engine.
type kept struct {
	*fake.Driver
	up   int
	down int
	err  error
}

func (k *kept) Setup(context.Context, driver.Spec) error {
	k.up++
	return nil
}

func (k *kept) Teardown() error {
	k.down++
	return k.err
}

func (k *kept) Locate() (string, error) { return "/usr/sbin/kept", nil }

// An engine on a path runs from its first trial on, not before the cells that are
// measured without it; between the trials of idle-engine it rests.
func TestEnginesOnPaths(t *testing.T) {
	for path, rests := range map[net.Path]int{net.Bridge: 0, IdleEngine: 1} {
		inner := &kept{Driver: fake.New("kept", nil), err: errors.New("it does not stop")}
		d := New(driver.Lab{}, inner, fake.New("host", nil), path)
		session, ok := driver.As[driver.SessionDriver](d)
		if !ok {
			t.Fatalf("%s: no session", path)
		}
		if err := session.Setup(t.Context(), driver.Spec{}); err != nil || inner.up != 0 {
			t.Errorf("%s: %v, started %d times", path, err, inner.up)
		}
		if err := d.Rest(); (err != nil) != (rests > 0) || inner.down != rests {
			t.Errorf("%s: at rest %v, stopped %d times, want %d", path, err, inner.down, rests)
		}
		if err := session.Teardown(); !errors.Is(err, inner.err) || inner.down != rests+1 {
			t.Errorf("%s: %v, stopped %d times", path, err, inner.down)
		}
		if l, ok := driver.As[driver.Located](d); !ok {
			t.Errorf("%s: the inner driver's program is not found", path)
		} else if program, err := l.Locate(); err != nil || program != "/usr/sbin/kept" {
			t.Errorf("%s: %s, %v", path, program, err)
		}
	}
	if err := New(driver.Lab{}, fake.New("none", nil), fake.New("host", nil), net.Bridge).Teardown(); err != nil {
		t.Error(err)
	}
}
