package study

import (
	"math"
	"slices"
	"testing"
)

func TestLooks(t *testing.T) {
	for _, c := range []struct {
		blocks    int
		precision float64
		want      []int
	}{
		{12, 0, []int{12}},
		{5, 0.02, []int{5}},
		{6, 0.02, []int{6}},
		{20, 0.02, []int{6, 9, 14, 20}},
		{25, 0.02, []int{6, 9, 14, 20, 25}},
	} {
		s := Study{Blocks: c.blocks, Precision: c.precision, Alpha: 0.05}
		if got := s.Looks(); !slices.Equal(got, c.want) {
			t.Errorf("%d blocks: looks %v, want %v", c.blocks, got, c.want)
		}
		if got := s.LookAlpha() * float64(len(c.want)); math.Abs(got-0.05) > 1e-12 {
			t.Errorf("%d blocks: the looks' errors sum to %v", c.blocks, got)
		}
	}
	if got := (Study{ID: "x", Precision: 0.02}).WithDefaults().Blocks; got != DefaultMost {
		t.Errorf("with a precision %d blocks at most, want %d", got, DefaultMost)
	}
}
