package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/preflight"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
)

// machine is this one, as requirements ask about it.
func (l *Lab) machine() preflight.Machine {
	return preflight.Here{Groups: l.groups != nil && l.groups.trees.Usable(), Proof: proveProbe}
}

// checkStudy looks at what a study needs before its targets are proven. It returns the
// study with those of its optional probes, environments and workloads that work here, why
// other environments and workloads do not, by name, and notes. Only the workbench has
// programs of this machine: own says that another root is used.
func (l *Lab) checkStudy(ctx context.Context, st study.Study, own bool) (study.Study, map[string]string, []string, error) {
	lacks := l.lacks
	if own {
		lacks = nil
	}
	a, err := preflight.Check(ctx, preflight.BeforeTargets, preflight.Question{
		Study: st, Wanted: l.wanted(st), Foreign: l.config.Foreign, AllowSysctl: l.config.AllowSysctl, Machine: l.machine(), Lacks: lacks,
	})
	if err != nil {
		return st, nil, nil, refusal(err)
	}
	notes, skipped := a.Notes, map[string]string{}
	asked := st.Environments
	st.Environments = slices.Clone(st.Environments)
	extra := map[string]bool{}
	for _, level := range st.OptionalEnvironments {
		extra[level.Name] = level.Extra
		if why, lacks := a.Skipped[level.Name]; lacks {
			skipped[level.Name] = why
			continue
		}
		st.Environments = append(st.Environments, level)
	}
	st.OptionalEnvironments = nil
	st.Workloads = slices.Clone(st.Workloads)
	for i, w := range st.Workloads {
		if len(w.Environments) == 0 || slices.ContainsFunc(w.Environments, func(name string) bool { return skipped[name] == "" }) {
			continue
		}
		if st.Workloads[i].Environments = namesOf(asked); extra[w.Environments[0]] { // it was made for them
			a.Skipped[w.Name], st.Workloads[i].Optional = skipped[w.Environments[0]], true
		}
	}
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
	st.Workloads = slices.DeleteFunc(slices.Clone(st.Workloads), func(w study.Workload) bool {
		why, is := a.Skipped[w.Name]
		if is && w.Optional {
			skipped[w.Name] = why
			notes = append(notes, why)
		}
		return is && w.Optional
	})
	return st, skipped, notes, nil
}

// lacks returns why the workbench does not have the programs of a workload; nil where it
// has them.
func (l *Lab) lacks(w study.Workload) error {
	job, err := workload.Resolve(w.Kind, w.Params, w.Args)
	if err != nil {
		return nil // what is wrong with it is found where its levels are known
	}
	return notInstalled(l.bench, job.Needs)
}

// notInstalled names the first program that a root of this machine's programs lacks, and
// what installs it; nil where it lacks none.
func notInstalled(root image.Root, needs []string) error {
	missing := root.Lacks(needs)
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s is not installed: %s installs it", missing[0].Name, missing[0].Setup)
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

// namesOf are the names of environments that are for all workloads.
func namesOf(levels []study.Environment) (names []string) {
	for _, l := range levels {
		if l.Extra {
			continue
		}
		names = append(names, l.Name)
	}
	return names
}
