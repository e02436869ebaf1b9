package workload

import "github.com/tarelab/tare/internal/sample"

// Names of the metrics of trials that measure many instances as one.
const (
	Elapsed         = "elapsed"
	StartsPerSecond = "starts-per-second"
	ReadyP50        = "ready-p50"
	ReadyP90        = "ready-p90"
	ReadyP99        = "ready-p99"
	ReadyMax        = "ready-max"
	Removal         = "removal"
)

// Many are the metrics of trials that measure many instances as one, in the
// order of display.
func Many() []sample.Metric {
	return []sample.Metric{
		{Name: Elapsed, Unit: sample.Seconds, Better: sample.Lower, Help: "from the first request until the last instance had ended or, where they are held, acted"},
		{Name: StartsPerSecond, Unit: sample.PerSecond, Better: sample.Higher, Help: "instances by elapsed time"},
		{Name: ReadyP50, Unit: sample.Seconds, Better: sample.Lower, Help: "of the times to ready of all instances, the median"},
		{Name: ReadyP90, Unit: sample.Seconds, Better: sample.Lower, Help: "of the times to ready of all instances, the 90th percentile (from 10 instances on)"},
		{Name: ReadyP99, Unit: sample.Seconds, Better: sample.Lower, Help: "of the times to ready of all instances, the 99th percentile (from 100 instances on)"},
		{Name: ReadyMax, Unit: sample.Seconds, Better: sample.Lower, Help: "of the times to ready of all instances, the longest"},
		{Name: Removal, Unit: sample.Seconds, Better: sample.Lower, Help: "how long it took to end what still ran, and to remove all instances"},
	}
}
