package analysis

import (
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/sample"
)

// waysInput has a host and runc, of which the first blocks were measured in another way.
func waysInput(other map[string]int) Input {
	return edit(12, func(r *sample.Record) {
		if target, _, _ := strings.Cut(r.Cell, "/"); r.Block < other[target] {
			r.Warnings = []sample.Warning{{Kind: sample.OtherWay, Text: "measured by perf events"}}
		}
	})
}

// TestOtherWays: cells that were measured in different ways are not compared, in one run or
// in two.
func TestOtherWays(t *testing.T) {
	all, some := 12, 3
	for name, c := range map[string]struct {
		other   map[string]int
		refused bool
	}{
		"the usual way":       {nil, false},
		"the same other way":  {map[string]int{"host": all, "runc": all}, false},
		"one cell":            {map[string]int{"runc": all}, true},
		"the control":         {map[string]int{"host": all}, true},
		"a part of the cells": {map[string]int{"host": some, "runc": some}, true},
	} {
		e := rowOf(t, Analyze(waysInput(c.other)), "runc").Effect
		if refused := strings.HasPrefix(e.Why, "Measured in different ways"); refused != c.refused || refused && e.Verdict != NotComparable {
			t.Errorf("%s: %s %q", name, e.Verdict, e.Why)
		}
	}
	lost := edit(12, func(r *sample.Record) {
		if r.Cell == "host/w" {
			r.Failure = &sample.Failure{Message: "exit 1"}
		}
	})
	if e := rowOf(t, Analyze(lost), "runc").Effect; e.Verdict != NotComparable || !strings.HasPrefix(e.Why, "The control host failed in 12 of its 12 trials") {
		t.Errorf("a control without a sample: %s %q", e.Verdict, e.Why)
	}
	usual, other := waysInput(nil), waysInput(map[string]int{"host": all, "host~aa": all, "runc": all})
	for name, c := range map[string]struct {
		a, b    Input
		refused bool
	}{
		"alike":           {other, other, false},
		"before, usually": {usual, other, true},
		"after, usually":  {other, usual, true},
	} {
		for _, row := range Compare(c.a, c.b).Comparisons[0].Rows {
			if e := row.Effect; e != nil && row.Target == "runc" && strings.HasPrefix(e.Why, "Measured in different ways") != c.refused {
				t.Errorf("%s: %s %q", name, row.Effect.Verdict, row.Effect.Why)
			}
		}
	}
}
