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
		sum := 0.0
		for _, n := range c.want {
			sum += s.LookAlpha(n)
		}
		if math.Abs(sum-0.05) > 1e-12 {
			t.Errorf("%d blocks: the looks' errors sum to %v", c.blocks, sum)
		}
	}
	s := Study{Blocks: 100, Precision: 0.02, Alpha: 0.05}
	for blocks, part := range map[int]float64{2: 2, 6: 2, 7: 6, 9: 6, 10: 12, 70: 56, 71: 8, 100: 8} {
		if got := s.LookAlpha(blocks); math.Abs(got*part-0.05) > 1e-12 {
			t.Errorf("looked at after %d blocks: %v, want 0.05/%g", blocks, got, part)
		}
	}
	for blocks, part := range map[int]float64{2: 1, 6: 1, 7: 2, 12: 3, 100: 8} {
		if got := s.LastAlpha(blocks); math.Abs(got*part-0.05) > 1e-12 {
			t.Errorf("ended by its budget after %d blocks: %v, want 0.05/%g", blocks, got, part)
		}
	}
	if got := (Study{ID: "x", Precision: 0.02}).WithDefaults().Blocks; got != DefaultMost {
		t.Errorf("with a precision %d blocks at most, want %d", got, DefaultMost)
	}
}
