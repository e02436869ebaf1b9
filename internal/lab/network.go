package lab

import (
	"fmt"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/preflight"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/published"
)

// networkPublished is the publication that the network studies stand beside.
const networkPublished = "bridge-network"

// rangeOf is the range of addresses of a study's first level, by which its paths are
// proven.
func rangeOf(st study.Study) string {
	if len(st.Limits) == 0 {
		return ""
	}
	return preflight.NetworkOf(st.Limits[0].Network).Range
}

// networkClaims puts a run beside the published throughputs between containers.
func networkClaims(run *store.Run, claims *analysis.Claims) error {
	if run.Manifest().Study.Published != networkPublished {
		return nil
	}
	d, err := published.LoadAs[*published.BridgeNetwork](networkPublished)
	if err != nil {
		return err
	}
	in, err := input(run)
	if err != nil {
		return err
	}
	if claims.Network, err = analysis.NetworkStudy(in, claims.Tables, d); err != nil {
		return fmt.Errorf("run %s beside %s: %w", run.Manifest().ID, networkPublished, err)
	}
	return nil
}
