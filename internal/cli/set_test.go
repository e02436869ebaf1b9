package cli

import (
	"slices"
	"testing"

	"github.com/tarelab/tare/internal/study"
)

// Workloads that are measured in one environment are measured in all that come of it.
func TestSetKeepsEnvironmentsOfWorkloads(t *testing.T) {
	st := study.Study{Environments: []study.Environment{{}, {Name: "n20"}}, Workloads: []study.Workload{{Name: "few", Environments: []string{"", "other"}}, {Name: "all"}}}
	st, err := set(st, "cpus=0.5,1")
	if err != nil {
		t.Fatal(err)
	}
	if got := st.Workloads[0].Environments; !slices.Equal(got, []string{"cpus-0.5", "cpus-1", "other"}) || len(st.Workloads[1].Environments) > 0 || len(st.Environments) != 4 {
		t.Errorf("%q of %+v", got, st.Environments)
	}
}
