package trial

import (
	"time"

	"golang.org/x/sys/unix"
)

// A Stamp is a moment on the host's CLOCK_MONOTONIC, in nanoseconds. It is the
// only clock whose differences enter a record (clock_gettime(2)).
type Stamp int64

// Sub is the time from earlier to s.
func (s Stamp) Sub(earlier Stamp) time.Duration { return time.Duration(s - earlier) }

func (s Stamp) seconds() float64 { return float64(s) / 1e9 }

// Now reads the clock. Drivers and workloads never do: a mark means the same
// everywhere only if one place makes it.
func Now() Stamp {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("clock_gettime(CLOCK_MONOTONIC): " + err.Error()) // the kernel has had it since 2.6
	}
	return Stamp(ts.Nano())
}
