package native_test

import (
	"errors"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/drivertest"
	"github.com/tarelab/tare/internal/driver/native"
)

func TestContract(t *testing.T) {
	lab := drivertest.New(t)
	drivertest.Run(t, native.New(lab), drivertest.Options{Lab: lab})
}

// TestSeccompStarts: the profile loads on every kernel; before Linux 3.17 by prctl.
func TestSeccompStarts(t *testing.T) {
	for _, d := range native.Drivers(drivertest.New(t)) {
		if d.Name() != "native/seccomp" {
			continue
		}
		if _, err := d.Check(t.Context()); err != nil {
			t.Error(err)
		}
		return
	}
	t.Error("there is no native/seccomp")
}

// TestLadder proves every rung by use; the contract is for the floor.
func TestLadder(t *testing.T) {
	lab := drivertest.New(t)
	last := -1
	for _, d := range native.Drivers(lab) {
		if order := d.Properties().Order; order <= last {
			t.Errorf("%s has order %d, not above the rung before it (%d)", d.Name(), order, last)
		} else {
			last = order
		}
		_, err := d.Check(t.Context())
		if last > native.New(lab).Properties().Order && errors.As(err, new(*driver.CannotError)) {
			t.Logf("%v", err) // an arm, or a rung above the floor, that this machine's cgroups do not allow
		} else if err != nil {
			t.Errorf("%s: %v", d.Name(), err)
		}
	}
}
