package probe

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/sys"
)

// Clock measures at which rate the CPUs run while the instances' tasks are on
// them: with the cycle counter where the machine lets it be used, else by what
// cpufreq says of the fastest CPU, else not at all. It is for payloads that never
// wait: a switch to another group reprograms the counter, which a test of
// switches would feel, and a CPU that idles in between is clocked down.
type Clock struct{}

// samplePeriod is how often cpufreq is asked.
const samplePeriod = 100 * time.Millisecond

// Begin starts to count, or to ask.
func (Clock) Begin(_ context.Context, on []driver.Watch) (func() ([]sample.Value, error), error) {
	var instances []driver.Watch
	for _, w := range on {
		if w.Cgroup != "" {
			w.Cgroup = instanceOf(w.Cgroup) // the groups in it may be made inside the clock
		}
		instances = append(instances, w)
	}
	open, err := openFor(instances, []event{eventOf(sample.Cycles)})
	if err != nil {
		return nil, fmt.Errorf("clock probe: %w", err)
	}
	if len(open) == 0 {
		return sampleClock(sys.CPUDir, samplePeriod), nil
	}
	return func() ([]sample.Value, error) {
		defer closeAll(open)
		sums, err := sumCounters(open)
		if err != nil {
			return nil, fmt.Errorf("clock probe: %w", err)
		}
		return countedClock(sums[sample.Cycles]), nil
	}, nil
}

// countedClock is cycles by the time in which they were counted. That of a
// group's counter runs only while a task of the group is on the counter's CPU.
func countedClock(cycles reading) []sample.Value {
	if cycles.count == 0 || cycles.running == 0 {
		return nil
	}
	return []sample.Value{{Metric: sample.ClockCounted, Value: float64(cycles.count) / float64(cycles.running) * 1e9}}
}

// sampleClock asks cpufreq time and again, and gives the mean of its answers.
func sampleClock(cpus string, every time.Duration) func() ([]sample.Value, error) {
	if sys.FastestClock(cpus) == 0 {
		return func() ([]sample.Value, error) { return nil, nil }
	}
	var asking sync.WaitGroup
	stop, sum, answers := make(chan struct{}), 0., 0
	asking.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				if hz := sys.FastestClock(cpus); hz > 0 {
					sum, answers = sum+hz, answers+1
				}
			}
		}
	})
	return func() ([]sample.Value, error) {
		close(stop)
		asking.Wait()
		if answers == 0 {
			return nil, nil
		}
		return []sample.Value{{Metric: sample.ClockCPUFreq, Value: sum / float64(answers)}}, nil
	}
}
