package driver_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/tarelab/tare/internal/driver"
)

// An engine that is started again ends no trial, as long as nothing else went wrong.
func TestIsRestart(t *testing.T) {
	again, other := &driver.RestartError{Err: errors.New("it counts one too many")}, errors.New("a mount stays")
	for text, err := range map[string]error{
		"": nil, "other": other, "both": errors.Join(again, other), "both, wrapped": driver.Labf("close: %w", errors.Join(other, again)),
	} {
		if driver.IsRestart(err) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, err := range map[string]error{
		"alone": again, "wrapped": fmt.Errorf("close: %w", again), "joined": driver.Labf("%w", errors.Join(nil, again, nil)),
	} {
		if !driver.IsRestart(err) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
