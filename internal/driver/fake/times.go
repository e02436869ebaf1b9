package fake

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
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

// LogNormal gives times with the median and the standard deviation of their
// logarithms (0.1: about 10 %), the shape that start times have. The same seed
// gives the same times in the order of the calls. It is safe for concurrent use.
func LogNormal(seed uint64, median time.Duration, sigma float64) func() time.Duration {
	var mu sync.Mutex
	source := rand.New(rand.NewPCG(seed, seed))
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(float64(median) * math.Exp(sigma*source.NormFloat64()))
	}
}
