package cli

import (
	"io"
	"testing"
	"time"
)

// tare watch ends after --for, and not half an interval later.
func TestWatchEndsInTime(t *testing.T) {
	const long = 100 * time.Millisecond
	f := seriesFlags{interval: 20 * time.Second, duration: long}
	readings := 0
	count := func(watched) error {
		readings++
		return nil
	}
	env, began := Env{Stdout: io.Discard}, time.Now()
	err := env.seriesLoop(t.Context(), &f, began, []readingOutput{count})
	if took := time.Since(began); err != nil || readings != 1 || took < long || took > f.interval/4 {
		t.Errorf("watched for %v with %d readings, want %v with 1: %v", took, readings, long, err)
	}
}
