package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/netpath"
	"github.com/tarelab/tare/internal/preflight"
	"github.com/tarelab/tare/internal/study"
)

// settleTargets proves the study's targets and expands its cells over those
// that work.
func (l *Lab) settleTargets(ctx context.Context, p *Plan) error {
	m := &p.Manifest
	m.Targets, p.drivers = map[string]driver.Facts{}, map[string]driver.Driver{}
	if m.LeftOut = maps.Clone(m.LeftOut); m.LeftOut == nil {
		m.LeftOut = map[string]string{}
	}
	wanted := l.wanted(m.Study)
	unmade, err := l.makeParts(ctx, wanted)
	if err != nil {
		return err
	}
	var working []string
	broken := map[string]error{}
	for i, f := range l.Check(ctx, wanted, false) {
		if f.Err != nil {
			broken[f.Target] = cmp.Or(unmade[f.Target], f.Err)
			continue
		}
		working = append(working, f.Target)
		m.Targets[f.Target] = f.Facts
		p.drivers[f.Target] = wanted[i]
	}
	for _, d := range wanted {
		if on, placed := driver.As[*netpath.Driver](d); placed {
			if err := on.Rest(); err != nil {
				return err
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for name, err := range broken {
		m.LeftOut[name] = err.Error()
	}
	cells, left := m.Study.Expand(working)
	for _, out := range left {
		if !out.Optional {
			return fmt.Errorf("target %s: %w", out.Target, broken[out.Target])
		}
	}
	for i := range cells {
		cells[i].Limits.CPUSet = p.cpusets[cells[i].Limits.CPUSet]
	}
	m.Cells = cells
	return nil
}

// makeParts has targets made whose making takes minutes, and says what those lack that
// cannot be: their checks know only that they are not there.
func (l *Lab) makeParts(ctx context.Context, wanted []driver.Driver) (unmade map[string]error, err error) {
	unmade = map[string]error{}
	for _, d := range wanted {
		host := d.Properties().ContainerHost()
		if host == nil {
			continue
		}
		err := host.Make(ctx, func(what string) { l.config.Say(d.Name() + ": " + what) })
		if errors.As(err, new(*driver.CannotError)) {
			unmade[d.Name()] = err
		} else if err != nil {
			return nil, fmt.Errorf("target %s: %w", d.Name(), err)
		}
	}
	return unmade, nil
}

// wanted are the drivers that a study asks for, those on a path made for it.
func (l *Lab) wanted(st study.Study) []driver.Driver {
	wanted := slices.DeleteFunc(slices.Clone(l.drivers), func(d driver.Driver) bool { return !st.Wants(d.Name()) })
	host := l.drivers[0] // nearest to the host
	for _, d := range l.drivers {
		for _, on := range netpath.All(l.place, d, host, rangeOf(st)) {
			if st.Wants(on.Name()) {
				wanted = append(wanted, on)
			}
		}
	}
	return wanted
}

// rangeOf is the range of addresses of a study's first level, by which its paths are
// proven.
func rangeOf(st study.Study) string {
	if len(st.Environments) == 0 {
		return ""
	}
	return preflight.NetworkOf(st.Environments[0].Network).Range
}
