package study

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Vary returns the study that one of its variants describes. It has no variants, and
// Taken is its name. The error of an unknown name has the nearest one.
func (s Study) Vary(name string) (Study, error) {
	v, ok := s.Variants[name]
	if !ok && len(s.Variants) == 0 {
		return Study{}, fmt.Errorf("study %s has no variants: run it without %q", s.ID, name)
	}
	if !ok {
		return Study{}, fmt.Errorf("study %s: %s", s.ID, unknown("variant", name, slices.Sorted(maps.Keys(s.Variants))))
	}
	return v, nil
}

// WithArms drops the interventions that a smaller choice of targets or workloads
// has left without their arm.
func (s Study) WithArms() Study { return s.withArmsOf(s.Measured()) }

func (s Study) withArmsOf(workloads []Workload) Study {
	targets := slices.Concat([]string{s.Control}, s.Targets, s.Optional)
	var levels []int
	var names []string
	for _, w := range workloads {
		names, levels = append(names, w.Name), append(levels, s.levelsOfConcurrency(w)...)
	}
	s.Interventions = slices.DeleteFunc(slices.Clone(s.Interventions), func(v Intervention) bool {
		against := targets
		if v.Workload != "" {
			against = names
		}
		return !within(targets, v.Target) || !within(names, v.Workload) || !within(against, v.Against) ||
			v.Concurrency != 0 && !slices.Contains(levels, v.Concurrency)
	})
	return s
}

// within says whether a name is one of those there are, or none was given.
func within(all []string, name string) bool { return name == "" || slices.Contains(all, name) }

// Detached is a study that a program has changed: problems are no longer shown
// where the text once had another value.
func (s Study) Detached() Study {
	s.src = nil
	return s
}

// Select keeps the named workloads alone, in the study's order; those that are
// off by default are measured when they are named. The error of an unknown name
// tells the nearest one.
func (s Study) Select(names []string) (Study, error) {
	if err := allKnown("workload", names, s.workloadNames()); err != nil {
		return Study{}, fmt.Errorf("study %s: %w", s.ID, err)
	}
	s.Workloads = slices.DeleteFunc(slices.Clone(s.Workloads), func(w Workload) bool { return !slices.Contains(names, w.Name) })
	for i := range s.Workloads {
		s.Workloads[i].Extra = false
	}
	return s.Detached(), nil
}

func (s Study) workloadNames() []string {
	names := make([]string, len(s.Workloads))
	for i, w := range s.Workloads {
		names[i] = w.Name
	}
	return names
}

// Watch lets these probes alone watch every cell, where by itself the study would
// have some of its cells watched, or some of their blocks.
func (s Study) Watch(probes []string) Study {
	if len(s.OptionalProbes) > 0 {
		s.OptionalProbes, s.WatchedFrom, s.WatchedBlocks = nil, 0, 0
	}
	s.Probes = probes
	return s.Detached()
}

// Alike leaves out the workloads that have numbers of instances of their own, and
// names them. Where all have, all stay.
func (s Study) Alike() (alike Study, apart []string) {
	own := func(w Workload) bool { return len(w.Copies) > 0 && !w.Extra }
	for _, w := range s.Workloads {
		if own(w) {
			apart = append(apart, w.Name)
		}
	}
	if !slices.ContainsFunc(s.Workloads, func(w Workload) bool { return !own(w) && !w.Extra }) {
		return s, nil
	}
	s.Workloads = slices.DeleteFunc(slices.Clone(s.Workloads), own)
	return s.Detached(), apart
}

// WithoutOwn takes from every workload what drop takes, so that the study's own
// levels hold for it.
func (s Study) WithoutOwn(drop func(*Workload)) Study {
	s.Workloads = slices.Clone(s.Workloads)
	for i := range s.Workloads {
		drop(&s.Workloads[i])
	}
	return s.Detached()
}

// SelectEnvironments keeps the named environments alone, in the study's order.
// The error of an unknown name tells the nearest one.
func (s Study) SelectEnvironments(names []string) (Study, error) {
	var known []string
	for _, l := range slices.Concat(s.Environments, s.OptionalEnvironments) {
		known = append(known, l.Name)
	}
	if err := allKnown("environment", names, slices.DeleteFunc(slices.Clone(known), func(n string) bool { return n == "" })); err != nil {
		return Study{}, fmt.Errorf("study %s: %w", s.ID, err)
	}
	s.Workloads = slices.Clone(s.Workloads)
	for i, w := range s.Workloads {
		left := slices.DeleteFunc(slices.Clone(w.Environments), func(name string) bool { return !slices.Contains(names, name) })
		s.Workloads[i].Extra = w.Extra || len(left) == 0 && len(w.Environments) > 0 // it is measured in none of them
		s.Workloads[i].Environments = left
	}
	forAll := slices.ContainsFunc(s.Measured(), func(w Workload) bool { return len(w.Environments) == 0 })
	chosen := func(levels []Environment) []Environment {
		levels = slices.DeleteFunc(slices.Clone(levels), func(l Environment) bool { return !slices.Contains(names, l.Name) })
		for i := range levels {
			levels[i].Extra = levels[i].Extra && !forAll
		}
		return levels
	}
	// One that is asked for by name is no longer optional.
	s.Environments, s.OptionalEnvironments = slices.Concat(chosen(s.Environments), chosen(s.OptionalEnvironments)), nil
	return s.Detached(), nil
}

// Renamed is the study with other names for its targets, wherever it names one: each
// is what rename gives for it. The error is rename's first.
func (s Study) Renamed(rename func(string) (string, error)) (Study, error) {
	var failed error
	one := func(name string) string {
		now, err := rename(name)
		if err != nil && failed == nil {
			failed = err
		}
		return now
	}
	all := func(names []string) []string {
		names = slices.Clone(names)
		for i, name := range names {
			names[i] = one(name)
		}
		return names
	}
	s.Control, s.Targets, s.Optional, s.Beside = one(s.Control), all(s.Targets), all(s.Optional), all(s.Beside)
	s.Workloads, s.Interventions, s.Limits = slices.Clone(s.Workloads), slices.Clone(s.Interventions), slices.Clone(s.Limits)
	for i, w := range s.Workloads {
		s.Workloads[i].Targets, s.Workloads[i].Except = all(w.Targets), all(w.Except)
	}
	for i, v := range s.Interventions {
		s.Interventions[i].Target = one(v.Target)
		if v.Workload == "" {
			s.Interventions[i].Against = one(v.Against)
		}
	}
	for i, l := range s.Limits {
		var err error
		if s.Limits[i], err = l.Renamed(rename); failed == nil {
			failed = err
		}
	}
	return s, failed
}

// allKnown words the refusal of the names that are not known, and of none.
func allKnown(what string, names, known []string) error {
	var problems []string
	for _, n := range names {
		if !slices.Contains(known, n) {
			problems = append(problems, unknown(what, n, known))
		}
	}
	switch {
	case len(problems) > 0:
		return fmt.Errorf("%s", strings.Join(problems, "; "))
	case len(names) == 0:
		return fmt.Errorf("no %s is named: known are %s", what, strings.Join(known, ", "))
	}
	return nil
}

// Measured are the workloads that are measured: all but those that are off by
// default.
func (s Study) Measured() []Workload {
	return slices.DeleteFunc(slices.Clone(s.Workloads), func(w Workload) bool { return w.Extra })
}

// WithoutIdle leaves out the extra levels that no measured workload names.
func (s Study) WithoutIdle() Study {
	used := map[string]bool{}
	for _, w := range s.Measured() {
		for _, name := range w.Environments {
			used[name] = true
		}
	}
	without := func(levels []Environment) []Environment {
		return slices.DeleteFunc(slices.Clone(levels), func(l Environment) bool { return l.Extra && !used[l.Name] })
	}
	s.Environments, s.OptionalEnvironments = without(s.Environments), without(s.OptionalEnvironments)
	return s
}

// ParamsOf are a workload's parameters at a level: the study's that the
// workload has, then its own, then the level's that it has. has says which
// names the workload's kind knows.
func (s Study) ParamsOf(w Workload, l Environment, has func(name string) bool) map[string]string {
	params := map[string]string{}
	known := func(from map[string]string) {
		for name, value := range from {
			if has(name) {
				params[name] = value
			}
		}
	}
	known(s.Params)
	maps.Copy(params, w.Params)
	known(l.Params)
	return params
}
