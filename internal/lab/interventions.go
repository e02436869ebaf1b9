package lab

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// knownWaits refuses interventions whose wait no probe gives: it would never be shown
// to change.
func knownWaits(st study.Study) error {
	var names []string
	for _, m := range profile.Metrics() {
		names = append(names, m.Name)
	}
	for _, v := range st.Interventions {
		if v.Wait != "" && !slices.Contains(names, v.Wait) {
			return &InputError{fmt.Errorf("intervention %q: no probe gives the wait %q: known are %s", v.Name, v.Wait, strings.Join(names, ", "))}
		}
	}
	return nil
}

// causeClaims judge a study's interventions.
func causeClaims(run *store.Run, claims *analysis.Claims) error {
	st := run.Manifest().Study
	if len(st.Interventions) == 0 {
		return nil
	}
	in, err := input(run)
	if err != nil {
		return err
	}
	records, err := collect(run)
	if err != nil {
		return err
	}
	claims.Causes = analysis.Causes(in, claims.Tables, claims.Waits, st, records, run.Manifest().LeftOut)
	return nil
}
