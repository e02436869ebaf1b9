package sys

import (
	"sync"
	"time"
)

func rdtsc() uint64

// tscSample is how long TSC watches the counter: the error of reading two
// clocks, well below a microsecond each, is then below 1 in 10,000.
const tscSample = 20 * time.Millisecond

// TSC is the frequency of the CPU's time stamp counter in kHz, measured once
// against the system's clock.
var TSC = sync.OnceValue(func() uint64 {
	begin, from := time.Now(), rdtsc()
	time.Sleep(tscSample)
	to, took := rdtsc(), time.Since(begin)
	return (to - from) * uint64(time.Millisecond) / uint64(took)
})
