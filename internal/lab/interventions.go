package lab

import (
	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/store"
)

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
