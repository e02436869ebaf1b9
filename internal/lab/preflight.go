package lab

import (
	"context"
	"errors"
	"slices"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/preflight"
	"github.com/tarelab/tare/internal/study"
)

// machine is this one, as requirements ask about it.
func (l *Lab) machine() preflight.Machine {
	return preflight.Here{Groups: l.groups != nil && l.groups.trees.Usable(), Proof: proveProbe}
}

// checkStudy looks at what a study needs before its targets are proven. It returns
// the study with those of its optional probes that work, and notes.
func (l *Lab) checkStudy(ctx context.Context, st study.Study) (study.Study, []string, error) {
	a, err := preflight.Check(ctx, preflight.BeforeTargets, preflight.Question{
		Study: st, Wanted: l.wanted(st), Foreign: l.config.Foreign, AllowSysctl: l.config.AllowSysctl, Machine: l.machine(),
	})
	if err != nil {
		return st, nil, refusal(err)
	}
	notes := a.Notes
	for _, p := range st.OptionalProbes {
		if why, skipped := a.Skipped[p]; skipped {
			notes = append(notes, why)
		}
	}
	st.Probes = slices.Clone(st.Probes)
	for _, p := range a.Probes {
		if !slices.Contains(st.Probes, p) {
			st.Probes = append(st.Probes, p)
		}
	}
	st.OptionalProbes = nil // what is recorded is what is measured
	return st, notes, nil
}

// checkCells looks at what the plan's cells need of this machine and of the targets
// that were proven.
func (l *Lab) checkCells(ctx context.Context, p *Plan, exact bool) (preflight.Answer, error) {
	targets := map[string]preflight.Target{}
	for name, d := range p.drivers {
		targets[name] = preflight.Target{Driver: d, Facts: p.Manifest.Targets[name]}
	}
	a, err := preflight.Check(ctx, preflight.BeforeTrials, preflight.Question{
		Study: p.Manifest.Study, Cells: p.Manifest.Cells, Targets: targets, Job: p.jobOf, Exact: exact, Machine: l.machine(),
	})
	if err != nil {
		return a, refusal(err)
	}
	p.Notes = append(p.Notes, a.Notes...)
	return a, nil
}

// refusal is how the laboratory reports what preflight refused: where the machine
// lacks something as a *driver.CannotError, else as an *InputError.
func refusal(err error) error {
	var refused *preflight.RefusedError
	switch {
	case !errors.As(err, &refused):
		return err
	case errors.As(err, new(*driver.CannotError)):
		return refused.Reason
	}
	return &InputError{refused.Reason}
}

// compared is among how many cells each group's verdicts are judged.
func (p *Plan) compared() map[string]int {
	return preflight.Compared(p.Manifest.Study, p.Manifest.Cells)
}
