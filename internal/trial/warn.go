package trial

import (
	"fmt"
	"runtime"
	"time"
)

// stealShare of the CPUs' time that a hypervisor may take before a trial is
// marked, and stealTick, below which the kernel's counter (10 ms ticks) cannot
// tell one tick from none.
const (
	stealShare = 0.05
	stealTick  = 20 * time.Millisecond
)

// disturbed says what happened to the machine during a trial that makes its
// numbers doubtful; the analysis counts such warnings by the word before the
// colon.
func disturbed(values map[string][]float64, elapsed time.Duration) []string {
	stolen := values["steal"]
	if len(stolen) == 0 {
		return nil
	}
	lost := time.Duration(stolen[0] * float64(time.Second))
	if lost < stealTick || lost.Seconds() < stealShare*elapsed.Seconds()*float64(runtime.NumCPU()) {
		return nil
	}
	return []string{fmt.Sprintf("steal: the hypervisor took %v of CPU time during %v", lost.Round(time.Millisecond), elapsed.Round(time.Millisecond))}
}
