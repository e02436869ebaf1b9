package lab

import (
	"context"
	"errors"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/fake"
)

// making is a driver whose machine is made before it is checked.
type making struct {
	*fake.Driver
	err error
}

func (m making) Properties() driver.Properties {
	p := m.Driver.Properties()
	p.Machine = &driver.Machine{Host: &driver.ContainerHost{Make: func(context.Context, func(string)) error { return m.err }}}
	return p
}

// What the making of a machine lacks is what its target lacks; anything else ends the plan.
func TestWhatCannotBeMade(t *testing.T) {
	lacks := &driver.CannotError{Target: "vm", Lacks: "mmdebstrap is not installed", Remedy: "apt-get install mmdebstrap"}
	named := func(name string, err error) driver.Driver { return making{fake.New(name, nil), err} }
	l := &Lab{}
	got, err := l.makeParts(t.Context(), []driver.Driver{named("one", lacks), named("other", nil), fake.New("plain", nil)})
	if err != nil || len(got) != 1 || !errors.Is(got["one"], lacks) {
		t.Errorf("%v, %v", got, err)
	}
	broken := errors.New("the disk is full")
	if _, err := l.makeParts(t.Context(), []driver.Driver{named("one", broken)}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}
