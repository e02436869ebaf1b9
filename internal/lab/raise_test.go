package lab

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/fake"
	"github.com/tarelab/tare/internal/schedule"
	"github.com/tarelab/tare/internal/study"
)

// raised is a driver of an engine that notes for which image it was started.
type raised struct {
	*fake.Driver
	images []string
}

func (r *raised) Setup(_ context.Context, spec driver.Spec) error {
	r.images = append(r.images, spec.Image)
	return errors.New("it does not come up")
}

func (r *raised) Teardown() error { return nil }

// Engines with trials left are up before the first of them; one that does not come up
// ends nothing.
func TestEnginesAreRaised(t *testing.T) {
	left, done := &raised{Driver: fake.New("left", nil)}, &raised{Driver: fake.New("done", nil)}
	p := &Plan{
		trials:  []schedule.Trial{{Seq: 0, Cell: 0}, {Seq: 1, Cell: 1}, {Seq: 2, Cell: 2}, {Seq: 3, Cell: 1}},
		drivers: map[string]driver.Driver{"left": left, "done": done, "host": fake.New("host", nil)},
	}
	p.Manifest.Cells = []study.Cell{{Target: "done"}, {Target: "left"}, {Target: "host"}}
	p.root.Layout = "/image"
	if err := p.raise(t.Context(), map[int]bool{0: true}); err != nil {
		t.Error(err)
	}
	if !slices.Equal(left.images, []string{"/image"}) || len(done.images) > 0 {
		t.Errorf("raised for %q and %q", left.images, done.images)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.raise(ended, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
