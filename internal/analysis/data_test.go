package analysis

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sample"
)

func record(block int, values map[string][]float64) *sample.Record {
	return &sample.Record{Cell: "c", Block: block, Values: values}
}

func TestSeriesIsOneValuePerBlock(t *testing.T) {
	d := NewData(nil, 0)
	d.Add(record(-1, map[string][]float64{"wall": {9}}))
	d.Add(record(0, map[string][]float64{"wall": {1}, "late": {10}}))
	d.Add(record(1, map[string][]float64{"wall": {2, 4}}))
	d.Add(record(3, map[string][]float64{"wall": {4}, "late": {13}}))
	d.Add(record(2, map[string][]float64{"wall": {3}}))              // a resumed run may be out of order
	d.Add(record(3, map[string][]float64{"wall": {8}}))              // three times in a block
	d.Add(record(3, map[string][]float64{"wall": {900}}))            // the median is what counts
	d.Add(record(4, map[string][]float64{"wall": {math.NaN()}}))     // nothing usable
	d.Add(record(5, map[string][]float64{"wall": {math.Inf(1), 7}})) // half usable
	c := d.cells["c"]
	for name, want := range map[string]Series{
		"wall":    {[]int32{0, 1, 2, 3, 5}, []float64{1, 3, 3, 8, 7}},
		"late":    {[]int32{0, 3}, []float64{10, 13}},
		"unknown": {},
	} {
		if got := c.series(name); !slices.Equal(got.blocks, want.blocks) || !slices.Equal(got.values, want.values) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if c.cold["wall"] != 9 || c.bad != 2 || d.trials != 9 {
		t.Errorf("cold %v, bad %d, trials %d; want 9, 2, 9", c.cold, c.bad, d.trials)
	}
	if got := c.metrics["wall"].copies; !slices.Equal(got, []float64{2, 4, 7}) {
		t.Errorf("copies %v", got)
	}
}

// A failure takes back the values of its trial, in whichever order they came.
func TestFailureKeepsNoValue(t *testing.T) {
	d := NewData(nil, 0)
	d.Add(record(0, map[string][]float64{"wall": {1}}))
	first := &sample.Failure{Message: "first"}
	after := d.Trial([]byte("c"), 1)
	after.Value([]byte("wall"), 2)
	after.Fail(first)
	before := d.Trial([]byte("c"), 2)
	before.Fail(&sample.Failure{Message: "second"})
	before.Value([]byte("wall"), 3)
	d.Add(record(3, map[string][]float64{"wall": {4}, "late": {5}}))
	rare := d.Trial([]byte("c"), 4)
	rare.Value([]byte("late"), 6)
	rare.Fail(first)
	d.Add(record(5, map[string][]float64{"late": {7}}))
	c := d.cells["c"]
	if got := c.series("late"); !slices.Equal(got.values, []float64{5, 7}) || !slices.Equal(got.blocks, []int32{3, 5}) {
		t.Errorf("%+v, want blocks 3 and 5", got)
	}
	if got := c.series("wall"); !slices.Equal(got.values, []float64{1, 4}) || !slices.Equal(got.blocks, []int32{0, 3}) {
		t.Errorf("%+v, want blocks 0 and 3", got)
	}
	if c.failed != 3 || c.failure != first || d.failures != 3 {
		t.Errorf("%d failures, first %+v", c.failed, c.failure)
	}
}

// A metric takes memory for the trials that have it: a foreign run may name thousands in
// one or two trials of very many.
func TestRareMetricsTakeLittle(t *testing.T) {
	const trials = 20_000
	rare := map[string][]float64{"wall": {1}}
	for i := range 1000 {
		rare[fmt.Sprint("m", i)] = []float64{1}
	}
	d := NewData(nil, trials)
	if over := (limit.Limit{Input: "data of rare metrics", Alloc: 64 << 20}).CheckAlloc(func() {
		for i := range trials {
			values := map[string][]float64{"wall": {1}}
			if i == 0 || i == trials-1 {
				values = rare
			}
			d.Add(record(i, values))
		}
	}); over != nil {
		t.Error(over)
	}
	for name := range rare {
		if got := d.cells["c"].series(name); name != "wall" && !slices.Equal(got.blocks, []int32{0, trials - 1}) {
			t.Fatalf("%s has the blocks %v", name, got.blocks)
		}
	}
}

func TestNotesCountByKind(t *testing.T) {
	var n notes
	for trial := range 3 {
		n.add(sample.Warning{Kind: sample.Busy, Share: 0.12}, 1+trial)
	}
	n.add(sample.Warning{Kind: sample.Busy, Share: 0.14}, 4)
	n.add(sample.Warning{Kind: sample.Busy, Share: 0.16}, 4) // twice in one trial
	if len(n) != 1 || n[0].count != 4 || n[0].first.Share != 0.12 || !n[0].first.Disturbed() {
		t.Errorf("%+v", n)
	}
	for i := range 100 {
		n.add(sample.Warning{Kind: sample.Note, Text: strings.Repeat("x", i)}, 5+i)
	}
	total := 0
	for _, k := range n {
		total += k.count
	}
	if len(n) != maxKinds || total != 104 {
		t.Errorf("%d kinds of %d warnings, want %d of 104", len(n), total, maxKinds)
	}
}

func TestTrialDoesNotAllocate(t *testing.T) {
	d := NewData(nil, 10_000)
	cell, metric := []byte("c"), []byte("wall")
	block := 0
	if n := testing.AllocsPerRun(1000, func() {
		trial := d.Trial(cell, block)
		trial.Value(metric, 1)
		block++
	}); n > 0 {
		t.Errorf("%g allocations a trial, want 0", n)
	}
}
