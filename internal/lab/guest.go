package lab

import (
	"context"
	"errors"
	"maps"
	"os"
	"runtime"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/schedule"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/trial"
)

// guestOf is what a cell's level gives to guests.
func guestOf(c study.Cell) study.Guest {
	if c.Limits.Guest == nil {
		return study.Guest{}
	}
	return *c.Limits.Guest
}

// machine is what a target's virtual machine offers; nil for other targets.
func (p *Plan) machine(target string) *driver.Machine {
	d, ok := p.drivers[target]
	if !ok {
		return nil
	}
	return d.Properties().Machine
}

// merges says that a cell's guests are merged: others have no memory for KSM.
func (p *Plan) merges(c study.Cell) bool {
	return p.machine(c.Target) != nil && guestOf(c).KSM
}

// settings are those of the whole machine that trials need which are made together: KSM
// where guests are to be merged, and huge pages for the guests that have them.
func (p *Plan) settings(unit []schedule.Trial) (map[string]string, error) {
	all, huge := map[string]string{}, int64(0)
	for _, t := range unit {
		c := p.Manifest.Cells[t.Cell]
		if p.merges(c) {
			maps.Copy(all, sys.KSMSettings())
		}
		if m := p.machine(c.Target); m != nil && guestOf(c).HugePages {
			pages := (m.Memory(limitsOf(c.Limits)) + guestOf(c).Hotplug + driver.HugePage - 1) / driver.HugePage
			huge += pages * int64(c.Copies)
		}
	}
	if huge == 0 {
		return all, nil
	}
	more, err := sys.HugePagesSettings(huge)
	maps.Copy(all, more)
	return all, err
}

// make makes a trial, or those of a set in one block, with the machine's settings that
// their guests need.
func (l *Lab) make(ctx context.Context, runner *trial.Runner, p *Plan, unit []schedule.Trial, share float64) (records []sample.Record, err error) {
	first := p.Manifest.Cells[unit[0].Cell]
	settings, err := p.settings(unit)
	if err != nil {
		return nil, driver.Labf("settings of the machine: %w", err)
	}
	if len(settings) > 0 {
		restore, err := l.place.Sysctl(settings)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, restore()) }()
	}
	if first.Set != "" {
		return runner.RunRounds(ctx, l.rounds(p, unit, share))
	}
	if set := first.Limits.CPUSet; set != "" && p.many(first) && first.Limits.Load == nil {
		restore, err := confine(set, p.drivers[first.Target])
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, restore()) }()
	}
	record, err := runner.Run(ctx, l.job(p, unit[0]))
	return []sample.Record{record}, err
}

// confine has tare itself and a target's engine use the CPUs of a level alone, until
// restore: where instances are measured as one, what both do for them is in the clock.
func confine(set string, d driver.Driver) (restore func() error, err error) {
	cpus, err := sys.ParseCPUs(set)
	if err != nil {
		return nil, err
	}
	before, err := sys.AllowedCPUs()
	if err != nil {
		return nil, driver.Labf("%w", err)
	}
	served, binds := driver.As[driver.Binder](d)
	use := func(cpus []int, set string) error {
		err := sys.UseCPUs(cpus)
		if os.Getenv("GOMAXPROCS") == "" {
			runtime.SetDefaultGOMAXPROCS() // else Go sees it up to a second later
		}
		if binds {
			err = errors.Join(err, served.Bind(set))
		}
		return err
	}
	restore = func() error { return use(before, "") }
	if err := use(cpus, set); err != nil {
		return nil, driver.Labf("CPUs of a level: %w", errors.Join(err, restore()))
	}
	return restore, nil
}
