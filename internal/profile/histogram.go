package profile

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"strconv"
	"time"
)

// The buckets of a Histogram: bucket 0 is below 256 ns, then 8 for each power
// of two up to 2^36 ns, so that a quantile is off by 6 % at most. The programs
// in the kernel count in the same buckets (probe/ebpf/locks.bpf.c).
const (
	firstExponent = 8
	lastExponent  = 36
	perOctave     = 8
	buckets       = 1 + (lastExponent-firstExponent)*perOctave
)

// Histogram counts durations.
type Histogram [buckets]uint32

// Add adds another's counts.
func (h *Histogram) Add(o Histogram) {
	for i, n := range o {
		h[i] += n
	}
}

// Count counts one duration.
func (h *Histogram) Count(d time.Duration) { h[bucketOf(d)]++ }

func bucketOf(d time.Duration) int {
	if d < 1<<firstExponent {
		return 0
	}
	d = min(d, 1<<lastExponent-1)
	exponent := bits.Len64(uint64(d)) - 1
	return 1 + (exponent-firstExponent)*perOctave + int(d>>(exponent-3)&(perOctave-1))
}

// bounds are a bucket's smallest duration and the next one's.
func bounds(bucket int) (low, high time.Duration) {
	if bucket == 0 {
		return 0, 1 << firstExponent
	}
	shift := (bucket-1)/perOctave + firstExponent - 3
	step := (bucket-1)%perOctave + perOctave
	return time.Duration(step) << shift, time.Duration(step+1) << shift
}

// Quantile is the duration that the share q of all lies below, within 6 %. It
// is 0 where nothing was counted.
func (h *Histogram) Quantile(q float64) time.Duration {
	var all float64
	for _, n := range h {
		all += float64(n)
	}
	want, sum := q*all, 0.0
	for i, n := range h {
		if n > 0 && sum+float64(n) >= want {
			low, high := bounds(i)
			return (low + high) / 2
		}
		sum += float64(n)
	}
	return 0
}

// MarshalJSON writes the buckets that are not empty, by number.
func (h Histogram) MarshalJSON() ([]byte, error) {
	full := map[string]uint32{}
	for i, n := range h {
		if n > 0 {
			full[strconv.Itoa(i)] = n
		}
	}
	return json.Marshal(full)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (h *Histogram) UnmarshalJSON(data []byte) error {
	var full map[int]uint32
	if err := json.Unmarshal(data, &full); err != nil {
		return fmt.Errorf("histogram: %w", err)
	}
	for i, n := range full {
		if i < 0 || i >= buckets {
			return fmt.Errorf("histogram: there is no bucket %d", i)
		}
		h[i] = n
	}
	return nil
}
