package fleet

import (
	"fmt"
	"slices"
	"testing"
)

// Jobs that may still be in the engine stand in the order in which they were submitted
// last. A foreign fleet has very many: each event must not look through them all.
func TestKeptJobs(t *testing.T) {
	const many = 100_000
	events := []Event{{Job: "b", What: Submitting}, {Job: "a", What: Submitting}, {Slot: 1, Job: "b", What: Submitting}, {Job: "b", What: Submitting},
		{Job: "c", What: Submitting}, {Job: "a", What: Removed}, {Job: "d", What: Removed}, {Job: "a", What: Submitting}, {Job: "e", What: Lost}}
	for i := range many {
		events = append(events, Event{Slot: 1, Job: fmt.Sprint(i), What: Submitting})
	}
	all := statuses(Plan{Draw: Draw{Wanted: 2, Order: []string{"m", "n"}}}, events)
	if got := all[0].Kept; !slices.Equal(got, []string{"b", "c", "a"}) {
		t.Errorf("kept %q", got)
	}
	if got := all[1].Kept; len(got) != many+1 || got[0] != "b" || got[many] != fmt.Sprint(many-1) {
		t.Errorf("%d kept", len(got))
	}
}

// The first fact of a name counts, and one that a machine lacks differs. Two foreign
// machines may have very many.
func TestManyFactsDiffer(t *testing.T) {
	const many = 50_000
	a := Machine{Name: "a", Facts: []Fact{{"x", "1"}, {"x", "2"}, {"same", "1"}}}
	b := Machine{Name: "b", Facts: []Fact{{"same", "1"}, {"x", "2"}}}
	for i := range many {
		a.Facts = append(a.Facts, Fact{fmt.Sprint("m", i), "1"})
	}
	got := differ([]Machine{a, b})
	if len(got) != many+1 || got[0].Fact != "x" || got[0].Values[0].Value != "1" || got[1].Values[0].Value != "" {
		t.Errorf("%d differ", len(got))
	}
}
