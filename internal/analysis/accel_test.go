package analysis_test

import (
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

// A guest on the CPU has no effect beside an emulated control, and the run is told
// to be mixed.
func TestUnlikeGuestsAreNotCompared(t *testing.T) {
	cells := []study.Cell{{ID: "q", Target: "qemu/q35", Workload: "w", Group: "w", Control: true}, {ID: "m", Target: "qemu/microvm", Workload: "w", Group: "w"}}
	data := analysis.NewData(cells, 0)
	for i := range 16 {
		data.Add(&sample.Record{Seq: i, Block: i / 2, Cell: cells[i%2].ID, Values: map[string][]float64{"wall": {1 + float64(i%2)}}})
	}
	in := analysis.Input{Cells: cells, Data: data, Blocks: 8, Metrics: map[string][]sample.Metric{"w": {{Name: "wall"}}}}
	for accel, mixed := range map[string]bool{"kvm": true, "tcg": false, "": false} {
		in.Accels = map[string]string{"qemu/q35": "tcg", "qemu/microvm": accel}
		claims := analysis.Analyze(in)
		told := strings.Contains(strings.Join(analysis.Texts(claims.Warnings), "\n"), "qemu/microvm ran under KVM and qemu/q35 under TCG")
		row := claims.Tables[0].Rows[1]
		if (row.Effect == nil) != mixed || told != mixed {
			t.Errorf("under %q: %+v, warnings %q", accel, row.Effect, claims.Warnings)
		}
		if row.Accel != accel {
			t.Errorf("a row under %q is said to be under %q", accel, row.Accel)
		}
	}
}
