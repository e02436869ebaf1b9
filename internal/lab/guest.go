package lab

import (
	"context"
	"errors"
	"slices"

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

// make makes a trial, or those of a set in one block, with the machine's KSM on where
// its guests are to be merged.
func (l *Lab) make(ctx context.Context, runner *trial.Runner, p *Plan, unit []schedule.Trial) (records []sample.Record, err error) {
	first := p.Manifest.Cells[unit[0].Cell]
	if slices.ContainsFunc(unit, func(t schedule.Trial) bool { return p.merges(p.Manifest.Cells[t.Cell]) }) {
		restore, err := l.Target.Sysctl(sys.KSMSettings())
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, restore()) }()
	}
	if first.Set != "" {
		return runner.RunRounds(ctx, l.rounds(p, unit))
	}
	record, err := runner.Run(ctx, l.job(p, unit[0]))
	return []sample.Record{record}, err
}
