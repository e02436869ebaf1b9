package lab

import (
	"math"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

func TestRunsEndByPrecisionOrBudget(t *testing.T) {
	const never = time.Duration(math.MaxInt64)
	for name, c := range map[string]struct {
		precision float64
		budget    time.Duration
		half      func(blocks int) float64 // of the widest interval
		ends      int                      // after how many blocks; 0 for never
		reason    store.Reason
	}{
		"narrow at the first look":  {0.02, 0, func(int) float64 { return 0.01 }, 6, store.EndPrecision},
		"narrow between two looks":  {0.02, 0, func(n int) float64 { return 0.2 / float64(n) }, 14, store.EndPrecision},
		"without an interval":       {0.02, 0, func(n int) float64 { return map[bool]float64{true: math.Inf(1)}[n < 10] }, 14, store.EndPrecision},
		"never narrow":              {0.02, 0, func(int) float64 { return 1 }, 0, ""},
		"no precision":              {0, never, func(int) float64 { return 0 }, 0, ""},
		"no time":                   {0, 1, func(int) float64 { return 1 }, 1, store.EndBudget},
		"no time, narrow":           {0.02, 1, func(int) float64 { return 0.01 }, 1, store.EndBudget},
		"narrow within the budget":  {0.02, never, func(int) float64 { return 0.01 }, 6, store.EndPrecision},
		"narrow at the last look":   {0.02, 0, func(n int) float64 { return 0.6 / float64(n) }, 30, store.EndPrecision},
		"narrow after the last one": {0.02, 0, func(n int) float64 { return 0.8 / float64(n) }, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			st := study.Study{Blocks: 40, Precision: c.precision, Budget: c.budget}
			e := newEnding(st)
			if c.budget == never {
				e.study.Budget = time.Hour
			}
			for block := range st.Blocks {
				end, over, err := e.after(block, func(int) (analysis.Width, error) {
					return analysis.Width{Half: c.half(block + 1), Cell: "runc/x"}, nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if over {
					if block+1 != c.ends || end.Reason != c.reason || end.Blocks != c.ends {
						t.Errorf("ended after %d blocks: %+v; want %d by %q", block+1, end, c.ends, c.reason)
					}
					return
				}
			}
			if c.ends != 0 {
				t.Errorf("did not end; want %d blocks", c.ends)
			}
		})
	}
}
