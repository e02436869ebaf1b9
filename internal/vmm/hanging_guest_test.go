package vmm

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestAgain: a boot is made once more where its guest stopped in its kernel, and
// then only; what the second one gives is what counts.
func TestAgain(t *testing.T) {
	stopped := fmt.Errorf("boot: %w; the console ends", &HangError{MarkKernel, MarkInit, time.Minute})
	for name, test := range map[string]struct {
		gives []error // by boot
		boots int
	}{
		"well":              {[]error{nil}, 1},
		"stopped once":      {[]error{stopped, nil}, 2},
		"stopped twice":     {[]error{stopped, stopped}, 2},
		"another fault":     {[]error{errors.New("the VMM ended")}, 1},
		"without an engine": {[]error{&HangError{MarkInit, MarkAgent, time.Minute}}, 1},
		"silent":            {[]error{&HangError{MarkFirstByte, MarkKernel, time.Minute}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			boots, told := 0, 0
			err := Again(func(string) { told++ }, func() error {
				boots++
				return test.gives[boots-1]
			})
			if boots != test.boots || told != boots-1 || !errors.Is(err, test.gives[boots-1]) {
				t.Errorf("%d boots, told %d times, %v; want %d boots", boots, told, err, test.boots)
			}
		})
	}
}
