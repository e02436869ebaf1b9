package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/netpath"
	"github.com/tarelab/tare/internal/study"
)

// settleTargets proves the study's targets and expands its cells over those
// that work.
func (l *Lab) settleTargets(ctx context.Context, p *Plan) error {
	m := &p.Manifest
	m.Targets, m.LeftOut, p.drivers = map[string]driver.Facts{}, map[string]string{}, map[string]driver.Driver{}
	wanted := l.wanted(m.Study)
	if err := l.makeParts(ctx, wanted); err != nil {
		return err
	}
	var working []string
	broken := map[string]error{}
	for i, f := range l.Check(ctx, wanted, false) {
		if f.Err != nil {
			broken[f.Target] = f.Err
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
	cells, err := p.fitGuests(ctx, cells)
	if err == nil {
		m.Cells, err = p.fitting(cells)
	}
	if err != nil {
		return err
	}
	return errors.Join(p.needPaths(), p.needMachines(), p.needHosts(ctx))
}

// makeParts has targets made whose making takes minutes. What one cannot have,
// its check says.
func (l *Lab) makeParts(ctx context.Context, wanted []driver.Driver) error {
	for _, d := range wanted {
		host := d.Properties().ContainerHost()
		if host == nil {
			continue
		}
		err := host.Make(ctx, func(what string) { l.config.tell(d.Name() + ": " + what) })
		var cannot *driver.CannotError
		if err != nil && !errors.As(err, &cannot) {
			return fmt.Errorf("target %s: %w", d.Name(), err)
		}
	}
	return nil
}

// wanted are the drivers that a study asks for, those on a path made for it.
func (l *Lab) wanted(st study.Study) []driver.Driver {
	wanted := slices.DeleteFunc(slices.Clone(l.drivers), func(d driver.Driver) bool { return !st.Wants(d.Name()) })
	host := l.drivers[0] // nearest to the host
	for _, d := range l.drivers {
		for _, on := range netpath.All(l.Target, d, host, rangeOf(st)) {
			if st.Wants(on.Name()) {
				wanted = append(wanted, on)
			}
		}
	}
	return wanted
}

// needPaths refuses a workload of two ends in a target that has one.
func (p *Plan) needPaths() error {
	for _, c := range p.Manifest.Cells {
		if len(p.jobOf(c).Peer) > 0 && !strings.Contains(c.Target, study.PathSign) {
			return &InputError{fmt.Errorf("workload %s talks to another end, and the target %s has one: name its path, as %s%s%s, or give the study paths",
				c.Workload, c.Target, c.Target, study.PathSign, netpath.Loopback)}
		}
	}
	return nil
}

// needMachines refuses a workload that changes the whole machine where that is
// this one.
func (p *Plan) needMachines() error {
	for _, c := range p.Manifest.Cells {
		if p.jobOf(c).OwnMachine && p.Manifest.Targets[c.Target].Notes[driver.NoteAccel] == "" {
			return &InputError{fmt.Errorf("workload %s changes a setting of the whole machine, and the target %s shares this one: take a virtual machine, as qemu/microvm", c.Workload, c.Target)}
		}
	}
	return nil
}

// needHosts refuses a payload that starts containers itself where the target is no
// machine with a Docker, or its cell asks for what the payload cannot be given.
func (p *Plan) needHosts(ctx context.Context) error {
	checked := map[string]bool{}
	for _, c := range p.Manifest.Cells {
		if !p.jobOf(c).Beside {
			continue
		}
		h, ok := driver.As[driver.Hoster](p.drivers[c.Target])
		switch {
		case !ok || strings.Contains(c.Target, study.PathSign): // its containers would not be on the path
			return &InputError{fmt.Errorf("workload %s starts its containers itself, and the target %s is no machine with a Docker: take host, vm/stock or vm/trimmed", c.Workload, c.Target)}
		case c.Copies > 1 || c.Limits.CPUs > 0 || c.Limits.CPUSet != "" || c.Limits.Memory > 0 || c.Limits.Pids > 0:
			return &InputError{fmt.Errorf("workload %s has the whole machine of its target to itself: it takes no limits and one copy", c.Workload)}
		case checked[c.Target]:
			continue
		}
		checked[c.Target] = true
		if err := h.CheckHost(ctx); err != nil {
			return fmt.Errorf("target %s: %w", c.Target, err)
		}
	}
	return nil
}
