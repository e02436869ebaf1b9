package lab

import (
	"testing"
	"time"
)

// A cell that was not made yet is expected by what others of its kind took.
func TestPaceLearns(t *testing.T) {
	a := &pace{cells: []cellPace{
		{kind: "docker/start", expected: 10 * time.Second, left: 2},
		{kind: "docker/start", expected: 100 * time.Second, left: 1},
		{kind: "host/cpu", expected: time.Second, left: 3},
	}}
	for i, want := range []time.Duration{123 * time.Second, (5 + 50 + 3) * time.Second, (50 + 3) * time.Second, 3 * time.Second} {
		if got := a.left(); got != want {
			t.Errorf("after %d trials %v are left, want %v", i, got, want)
		}
		switch i {
		case 0, 1:
			a.learn(0, 5*time.Second)
		case 2:
			a.learn(1, 70*time.Second)
		}
	}
}
