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
			e := newEnding(st, 0)
			if c.budget == never {
				e.study.Budget = time.Hour
			}
			for block := range st.Blocks {
				end, over, err := e.after(block, 0, func(float64) (analysis.Width, error) {
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

// A run with a budget has as many blocks as a verdict takes, whatever a block with all of
// its rounds takes here, as long as what it takes besides leaves room for them.
func TestBudgetsShortenBlocks(t *testing.T) {
	for name, c := range map[string]struct {
		expected, besides, rounds time.Duration // of a block with all rounds
		blocks                    int
	}{
		"as expected":         {20 * time.Second, 5 * time.Second, 15 * time.Second, budgetBlocks},
		"slower":              {20 * time.Second, 10 * time.Second, 30 * time.Second, budgetBlocks},
		"much slower":         {20 * time.Second, 6 * time.Second, 60 * time.Second, budgetBlocks},
		"a part too few":      {20 * time.Second, 6 * time.Second, 11500 * time.Millisecond, 14},
		"short enough":        {5 * time.Second, 2 * time.Second, 3 * time.Second, 48},
		"expected too slow":   {60 * time.Second, 2 * time.Second, 3 * time.Second, 42},
		"no room for so many": {20 * time.Second, 40 * time.Second, 20 * time.Second, 5},
	} {
		t.Run(name, func(t *testing.T) {
			st := study.Study{Blocks: 100, Budget: 4 * time.Minute}
			e := newEnding(st, c.expected)
			made, spent := 0, time.Duration(0)
			for {
				rounds := time.Duration(e.share * float64(c.rounds))
				took := c.besides + rounds
				if spent += took; made > 0 && spent > st.Budget {
					t.Fatalf("%d blocks took %v", made+1, spent)
				}
				made++
				e.fit(made, st.Budget-spent, took, rounds)
				if spent+e.length(e.usual()) > st.Budget {
					break
				}
			}
			if made < c.blocks {
				t.Errorf("%d blocks in %v, want at least %d", made, spent, c.blocks)
			}
			if unused, whole := st.Budget-spent, c.besides+c.rounds; float64(unused) > (1-givenUp+keptBack)*float64(whole) {
				t.Errorf("%v of the budget were not used, and a block takes %v", unused, whole)
			}
			if e.share < leastShare || e.share > 1 {
				t.Errorf("a share of %v", e.share)
			}
		})
	}
}

// A block that something held up is not what the next ones are taken for.
func TestBudgetsOutliveAStall(t *testing.T) {
	e := newEnding(study.Study{Blocks: 100, Budget: 5 * time.Minute}, 20*time.Second)
	whole := parts{rounds: 10 * time.Second, besides: 5 * time.Second}
	made, spent := 0, time.Duration(0)
	for made == 0 || spent+e.length(e.usual()) <= e.study.Budget {
		took := e.length(whole)
		if made == 6 {
			took += time.Minute
		}
		rounds := time.Duration(e.share * float64(whole.rounds))
		spent += took
		made++
		e.fit(made, e.study.Budget-spent, took, rounds)
	}
	if made != 16 {
		t.Errorf("%d blocks in %v with a stall of a minute, want 16 of 15 s", made, spent)
	}
}
