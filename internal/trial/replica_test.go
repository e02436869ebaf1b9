package trial

import (
	"testing"

	"github.com/tarelab/tare/internal/target"
)

// A mark that is read after the payload's end was written before it.
func TestActedIsNotAfterTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		marks map[target.Phase]Stamp
		want  Stamp
	}{
		"read in time": {map[target.Phase]Stamp{target.PhaseExit: 30}, 20},
		"read late":    {map[target.Phase]Stamp{target.PhaseExit: 10}, 10},
		"still runs":   {map[target.Phase]Stamp{}, 20},
	} {
		r := &replica{stdout: &stream{acted: 20}, marks: c.marks}
		r.takeActed()
		if got := r.at(target.PhaseActed); got != c.want {
			t.Errorf("%s: acted at %v, want %v", name, got, c.want)
		}
	}
}
