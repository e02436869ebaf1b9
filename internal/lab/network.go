package lab

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/netpath"
	"github.com/tarelab/tare/internal/net"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/published"
)

// networkPublished is the publication that the network studies stand beside.
const networkPublished = "bridge-network"

// canAddress refuses ranges of addresses that this machine uses itself, where a target
// stands on a path that has addresses.
func (l *Lab) canAddress(st study.Study) error {
	if !slices.ContainsFunc(l.wanted(st), func(d driver.Driver) bool {
		on, placed := driver.As[*netpath.Driver](d)
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

// fitting leaves out the cells that cannot be measured on their paths, each with the
// reason. It refuses more containers than a path's bridges take, a group without its
// control, and a run of which nothing but controls is left.
func (p *Plan) fitting(cells []study.Cell) ([]study.Cell, error) {
	allowed, err := sys.AllowedCPUs()
	if err != nil {
		return nil, err
	}
	var kept []study.Cell
	without := map[string]error{} // groups whose control is left out
	var last error
	for _, c := range cells {
		on, placed := driver.As[*netpath.Driver](p.drivers[c.Target])
		if !placed {
			kept = append(kept, c)
			continue
		}
		err := on.Takes(networkOf(c.Limits.Network))
		if err == nil {
			err = p.cannotMeet(c, on, len(allowed))
		}
		var full *net.FullError
		switch {
		case err == nil:
			kept = append(kept, c)
			continue
		case errors.As(err, &full):
			return nil, &InputError{fmt.Errorf("cell %s: %w", c.ID, err)}
		case c.Control:
			without[c.Group] = err
		}
		p.Manifest.LeftOut[c.ID], last = err.Error(), err
	}
	compared := func(c study.Cell) bool { return !c.Control && !c.AA }
	if last != nil && slices.ContainsFunc(cells, compared) != slices.ContainsFunc(kept, compared) || len(cells) > 0 && len(kept) == 0 {
		return nil, &InputError{fmt.Errorf("nothing is left to measure: %w", last)}
	}
	for _, c := range kept {
		if err := without[c.Group]; err != nil {
			return nil, &InputError{fmt.Errorf("cell %s: its control cannot be measured: %w", c.ID, err)}
		}
	}
	return kept, nil
}

// cannotMeet says why a cell's two ends cannot be pinned as the level asks, or cannot
// reach each other as the workload does; nil where they can.
func (p *Plan) cannotMeet(c study.Cell, on *netpath.Driver, allowed int) error {
	cpus := allowed
	if c.Limits.CPUSet != "" {
		own, err := parseCPUs(c.Limits.CPUSet)
		if err != nil {
			return err
		}
		cpus = len(own)
	}
	if networkOf(c.Limits.Network).Pin == netpath.Apart && cpus < 2 {
		return fmt.Errorf("the level %s pins the two ends apart, and %d CPU may be used: take a level with pin: same", c.Environment, cpus)
	}
	if err := on.Carries(p.jobOf(c).Peer); err != nil {
		return fmt.Errorf("workload %s: %w", c.Workload, err)
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
