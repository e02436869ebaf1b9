package trial

import (
	"slices"
	"strconv"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
)

// A mark that is read after the payload's end was written before it.
func TestActedIsNotAfterTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		marks map[driver.Phase]Stamp
		want  Stamp
	}{
		"read in time": {map[driver.Phase]Stamp{driver.PhaseExit: 30}, 20},
		"read late":    {map[driver.Phase]Stamp{driver.PhaseExit: 10}, 10},
		"still runs":   {map[driver.Phase]Stamp{}, 20},
	} {
		r := &replica{stdout: &stream{acted: 20}, marks: c.marks}
		r.takeActed()
		if got := r.at(driver.PhaseActed); got != c.want {
			t.Errorf("%s: acted at %v, want %v", name, got, c.want)
		}
	}
}

// A process uses memory, so a peak of 0 bytes is not recorded.
func TestPeakOfASmallProcess(t *testing.T) {
	for rss, want := range map[int64]bool{0: false, 4096: true} {
		r := &replica{exit: driver.Exit{Usage: &driver.Usage{MaxRSS: rss}}}
		if got := slices.ContainsFunc(r.used(), func(v sample.Value) bool { return v.Metric == sample.PeakMemory }); got != want {
			t.Errorf("a peak of %d bytes is recorded: %v", rss, got)
		}
	}
}

// A record of many instances does not have the same warning once for each.
func TestWarningsOnce(t *testing.T) {
	out, errs := sample.Warning{Kind: sample.CutOff, Stream: "standard output"}, sample.Warning{Kind: sample.CutOff, Stream: "standard error"}
	var r running
	for range 3 {
		r.warn(out, errs)
	}
	if want := []sample.Warning{out, errs}; !slices.Equal(r.warnings, want) {
		t.Errorf("got %v, want %v", r.warnings, want)
	}
}

// A machine may be marked as off while its trial is evaluated already: its instance does not
// wait for that for ever. (Without the race detector this fails now and then.)
func TestMarkWhileEvaluated(t *testing.T) {
	r := &replica{stdout: &stream{}, stderr: &stream{}, there: make(chan struct{}),
		marks: map[driver.Phase]Stamp{driver.PhaseRequest: 10, driver.PhaseExit: 30}}
	marked := make(chan struct{})
	go func() {
		defer close(marked)
		for i := range 10_000 {
			r.mark(driver.Phase(strconv.Itoa(i)))
		}
	}()
	for range 100 {
		if _, err := r.evaluate(Job{Unmarked: true}); err != nil {
			t.Error(err)
		}
	}
	<-marked
}
