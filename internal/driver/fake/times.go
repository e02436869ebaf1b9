package fake

import (
	"context"
	"time"
)

// spinBelow is the end of a pause that is spun away instead of slept: a timer
// wakes up to that late.
const spinBelow = 150 * time.Microsecond

// pause waits for d with an error of a few microseconds. It reports false when
// ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	end := time.Now().Add(d)
	if d > spinBelow {
		timer := time.NewTimer(d - spinBelow)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
	}
	for time.Now().Before(end) {
	}
	return ctx.Err() == nil
}
