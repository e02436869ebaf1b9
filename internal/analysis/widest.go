package analysis

import (
	"math"

	"github.com/tarelab/tare/internal/stats"
)

// Width is how wide the widest interval of a run is.
type Width struct {
	Half float64 // half of it on the log scale, as a ratio minus 1; +Inf where an effect has no interval
	Cell string  // that has it; "" where nothing is compared
}

// Widest is the widest interval among the effects that a run is made for: of every
// target that is compared, in its primary metric. An effect without a ratio, and one
// whose work is not proven the same or whose CPU alone is emulated, has no width that
// more blocks would change.
func Widest(in Input) Width {
	in = in.WithDefaults()
	var widest Width
	for _, j := range in.jobs(in.groups()) {
		if !j.primary || j.group.control < 0 || j.group.cells[0].Probe != "" {
			continue
		}
		base := j.group.base()
		control := in.Data.cells[base.ID]
		for _, r := range in.table(j).table.Rows {
			if r.Effect == nil || r.AA || r.Effect.Difference != nil || in.emulatedAgainst(r.Target, base.Target, j.metric) != "" || in.unproven(in.Data.cells[r.Cell], control, r.Target, base.Target, j.group.cells[0].Workload) != "" {
				continue
			}
			half := math.Inf(1)
			if i := r.Effect.Interval; i.Method != stats.MethodNone && i.Low > 0 {
				half = math.Sqrt(i.High/i.Low) - 1
			}
			if widest.Cell == "" || half > widest.Half {
				widest = Width{half, r.Cell}
			}
		}
	}
	return widest
}
