package lab

import (
	"fmt"
	"slices"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/net"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/target"
	"github.com/tarelab/tare/internal/target/pair"
	"github.com/tarelab/tare/published"
)

// networkPublished is the publication that the network studies stand beside.
const networkPublished = "bridge-network"

// canAddress refuses ranges of addresses that this machine uses itself, where a target
// stands on a path that has addresses.
func (l *Lab) canAddress(st study.Study) error {
	if !slices.ContainsFunc(l.wanted(st), func(d target.Driver) bool {
		on, placed := d.(*pair.Driver)
		return placed && on.Addressed()
	}) {
		return nil
	}
	ranges := []string{rangeOf(st)}
	for _, level := range st.Limits {
		ranges = append(ranges, networkOf(level.Network).Range)
	}
	for _, r := range slices.Compact(ranges) {
		if _, err := net.Unused(r); err != nil {
			return &InputError{fmt.Errorf("%w, with --range or as the range of a level's network", err)}
		}
	}
	return nil
}

// rangeOf is the range of addresses of a study's first level, by which its paths are
// proven.
func rangeOf(st study.Study) string {
	if len(st.Limits) == 0 {
		return ""
	}
	return networkOf(st.Limits[0].Network).Range
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
