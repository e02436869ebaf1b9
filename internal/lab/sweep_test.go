package lab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/fake"
)

// elsewhere is a driver that has made something which only it can remove.
type elsewhere struct {
	*fake.Driver
	asked []string
	err   error
}

func (e *elsewhere) Sweep(_ context.Context, runDir string) ([]string, error) {
	e.asked = append(e.asked, runDir)
	return []string{"removed a container"}, e.err
}

// Drivers are asked to remove what a dead session has made elsewhere; where they
// cannot, the session stays for the next sweep.
func TestSweepAsksDrivers(t *testing.T) {
	state := t.TempDir()
	dir := filepath.Join(sessionsDir(state), "s1")
	if err := os.MkdirAll(filepath.Join(dir, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	d := &elsewhere{Driver: fake.New("fake", nil), err: errors.New("it does not answer")}
	drivers := func(driver.Lab) []driver.Driver { return []driver.Driver{fake.New("other", nil), d} }
	if _, err := Sweep(t.Context(), state, drivers); err == nil || !strings.Contains(err.Error(), "it does not answer") {
		t.Errorf("a sweep that fails: %v", err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the session is not kept: %v", err)
	}
	d.err = nil
	did, err := Sweep(t.Context(), state, drivers)
	if err != nil || !slices.Contains(did, "session s1: removed a container") {
		t.Errorf("%q, %v", did, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the session is still there: %v", err)
	}
	if want := filepath.Join(dir, "run"); !slices.Equal(d.asked, []string{want, want}) {
		t.Errorf("asked for %q", d.asked)
	}
}

func (e *elsewhere) Setup(context.Context, driver.Spec) error { return nil }

func (e *elsewhere) Teardown() error { return e.err }

// What a driver could not take away at the end is found by the next sweep.
func TestCloseKeepsWhatIsLeft(t *testing.T) {
	state := t.TempDir()
	d := &elsewhere{Driver: fake.New("fake", nil)}
	for _, refused := range []error{nil, errors.New("it does not answer")} {
		s, err := newSession(state)
		if err != nil {
			t.Fatal(err)
		}
		d.err = refused
		l := &Lab{session: s, drivers: []driver.Driver{d}}
		if err := l.Close(); !errors.Is(err, refused) {
			t.Errorf("%v, want %v", err, refused)
		}
		if _, err := os.Stat(s.dir); errors.Is(err, os.ErrNotExist) != (refused == nil) {
			t.Errorf("its driver says %v: %v", refused, err)
		}
	}
	d.err = nil
	if did, err := Sweep(t.Context(), state, func(driver.Lab) []driver.Driver { return []driver.Driver{d} }); err != nil || len(did) == 0 {
		t.Errorf("%q, %v", did, err)
	}
}
