package native_test

import (
	"testing"

	"github.com/tarelab/tare/internal/target/native"
	"github.com/tarelab/tare/internal/target/targettest"
)

func TestContract(t *testing.T) {
	lab := targettest.New(t)
	targettest.Run(t, native.New(lab), targettest.Options{Lab: lab})
}

// TestLadder proves every rung by use; the contract is for the floor.
func TestLadder(t *testing.T) {
	lab := targettest.New(t)
	last := -1
	for _, d := range native.Drivers(lab) {
		if order := d.Properties().Order; order <= last {
			t.Errorf("%s has order %d, not above the rung before it (%d)", d.Name(), order, last)
		} else {
			last = order
		}
		if _, err := d.Check(t.Context()); err != nil {
			t.Errorf("%s: %v", d.Name(), err)
		}
	}
}
