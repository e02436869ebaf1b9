package trial_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/fake"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/trial"
)

// A load takes turns while others are measured, is counted in their records, and is
// removed with them (runRounds checks that nothing is left).
func TestLoadNextToRounds(t *testing.T) {
	var turns atomic.Int64
	neighbour := taker(func(n int, name string) (string, bool) {
		turns.Add(1)
		time.Sleep(time.Millisecond)
		return honest(n, name)
	})
	b := block(20, []string{"a", "b"}, taker(func(n int, name string) (string, bool) {
		for before := turns.Load(); n > 1 && turns.Load() == before; { // it works while this one does, but for the first turns of both
			time.Sleep(time.Millisecond)
		}
		return honest(n, name)
	}))
	b.Loads = []trial.Load{{Driver: fake.New("neighbour", func(int, driver.Spec) fake.Script { return neighbour }), Copies: 2, Turn: "noise", Timeout: time.Minute}}
	b.Held[0].Load = 1
	got, err := runRounds(t, t.Context(), b)
	if err != nil || len(got) != 2 || got[0].Failure != nil || got[1].Failure != nil {
		t.Fatalf("%v, %+v", err, got)
	}
	for _, metric := range []string{sample.BesideRate, sample.BesideCPUs} {
		a, b := got[0].Values[metric], got[1].Values[metric]
		if len(a) != 1 || a[0] <= 0 || len(b) != 1 || b[0] <= 0 || a[0] == b[0] {
			t.Errorf("%s: %v next to a, %v next to b: each is of its own slices", metric, a, b)
		}
	}
}

// A load that does not work makes no sample, and the laboratory is at fault.
func TestLoadThatEnds(t *testing.T) {
	for name, last := range map[string]int{"before its first turn": 0, "in the midst": 3} {
		ended := make(chan struct{})
		neighbour := taker(func(n int, name string) (string, bool) {
			if n < last {
				return honest(n, name)
			}
			close(ended)
			return "", false
		})
		b := block(3, []string{"a"}, taker(func(n int, name string) (string, bool) {
			if n > 0 {
				<-ended
				time.Sleep(20 * time.Millisecond) // for the laboratory to see it
			}
			return honest(n, name)
		}))
		b.Loads = []trial.Load{{Driver: fake.New("neighbour", func(int, driver.Spec) fake.Script { return neighbour }), Copies: 1, Turn: "noise", Timeout: time.Minute}}
		b.Held[0].Load = 1
		got, err := runRounds(t, t.Context(), b)
		if err != nil || len(got) != 1 || got[0].Failure == nil {
			t.Fatalf("%s: %v, %+v", name, err, got)
		}
		if f := got[0].Failure; f.Fault != sample.FaultLaboratory || f.Phase != "load" || !strings.Contains(f.Message, "what runs next to the instances") {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
