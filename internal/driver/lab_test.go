package driver_test

import (
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver"
)

func TestLimitsOnASlowMachine(t *testing.T) {
	for slow, want := range map[int]time.Duration{0: time.Second, 1: time.Second, 10: 10 * time.Second} {
		if got := (driver.Lab{Slow: slow}).AtMost(time.Second); got != want {
			t.Errorf("a machine %d times slower: %v, want %v", slow, got, want)
		}
	}
}
