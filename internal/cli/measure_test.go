package cli

import (
	"slices"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/lab"
)

// A long plan says which of its parts take long, each with the flag that leaves it out; a
// short one says nothing of that.
func TestCosts(t *testing.T) {
	parts := []lab.Part{
		{Factor: lab.ByWorkload, Name: "hold", Time: 20 * time.Minute},
		{Factor: lab.ByWorkload, Name: "start", Time: 10 * time.Minute},
		{Factor: lab.ByWorkload, Name: "concurrency", Time: time.Minute},
		{Factor: lab.ByProbe, Name: "locks", Time: 5 * time.Minute},
	}
	want := []string{
		"about 20m0s of it: workload hold (without it: --workloads=start,concurrency)",
		"about 10m0s of it: workload start (without it: --workloads=hold,concurrency)",
		"about 5m0s of it: probe locks (without it: --probes=)",
	}
	if got := costs(parts, 31*time.Minute); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := costs(parts, time.Minute); got != nil {
		t.Errorf("a short plan: %q", got)
	}
}
