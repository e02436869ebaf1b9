package trial

import (
	"testing"

	"github.com/tarelab/tare/internal/driver"
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
