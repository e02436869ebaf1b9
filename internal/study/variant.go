package study

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Vary makes the study that one of its variants describes, with nothing else
// changed. The result has no variants left, and Taken names the one it is. The
// error of an unknown name tells the nearest one, or that there is none.
func (s Study) Vary(name string) (Study, error) {
	v, ok := s.Variants[name]
	if !ok {
		return Study{}, fmt.Errorf("study %s: %s", s.ID, unknown("variant", name, slices.Sorted(maps.Keys(s.Variants))))
	}
	if len(v.Targets)+len(v.Optional) > 0 {
		s.Targets, s.Optional = v.Targets, v.Optional
	}
	if len(v.Paths)+len(v.OptionalPaths) > 0 {
		s.Paths, s.OptionalPaths = v.Paths, v.OptionalPaths
	}
	s.Environments = orAll(v.Environments, s.Environments)
	s.Copies = orAll(v.Copies, s.Copies)
	s.Concurrency = orAll(v.Concurrency, s.Concurrency)
	s.ControlCopies = orAll(v.ControlCopies, s.ControlCopies)
	s.AA, s.Cold = or(v.AA, s.AA), or(v.Cold, s.Cold)
	s.Blocks, s.Timeout = or(v.Blocks, s.Blocks), or(v.Timeout, s.Timeout)
	s.Params = over(s.Params, v.Params)
	s.Workloads = slices.Clone(s.Workloads)
	for i, w := range s.Workloads {
		s.Workloads[i].Params = over(w.Params, v.WorkloadParams[w.Name])
		s.Workloads[i].Copies = orAll(v.WorkloadCopies[w.Name], w.Copies)
		s.Workloads[i].Concurrency = orAll(v.WorkloadConcurrency[w.Name], w.Concurrency)
	}
	if len(v.Workloads) > 0 {
		selected, err := s.Select(v.Workloads)
		if err != nil {
			return Study{}, fmt.Errorf("variant %s: %w", name, err)
		}
		s.Workloads = selected.Workloads
	}
	s.Variants, s.Taken, s.src = nil, name, s.src.within("variants."+name+".")
	return s.WithArms(), nil
}

// WithArms drops the interventions that a smaller choice of targets or workloads
// has left without their arm.
func (s Study) WithArms() Study {
	targets := slices.Concat([]string{s.Control}, s.Targets, s.Optional)
	var levels []int
	var names []string
	for _, w := range s.Workloads {
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

// within is a source in which what stands below a prefix stands at the top.
func (s *source) within(prefix string) *source {
	if s == nil {
		return nil
	}
	moved := *s
	moved.at = maps.Clone(s.at)
	for key, place := range s.at {
		if top, below := strings.CutPrefix(key, prefix); below {
			moved.at[top] = place
		}
	}
	return &moved
}

// Detached is a study that a program has changed: problems are no longer shown
// where the text once had another value.
func (s Study) Detached() Study {
	s.src = nil
	return s
}

func orAll[T any](levels, otherwise []T) []T {
	if len(levels) == 0 {
		return otherwise
	}
	return levels
}

// over puts parameters over others; it changes neither.
func over(below, above map[string]string) map[string]string {
	if len(above) == 0 {
		return below
	}
	merged := maps.Clone(below)
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, above)
	return merged
}

// Select keeps the named workloads alone, in the study's order; those that are
// off by default are measured when they are named. The error of an unknown name
// tells the nearest one.
func (s Study) Select(names []string) (Study, error) {
	known := make([]string, len(s.Workloads))
	for i, w := range s.Workloads {
		known[i] = w.Name
	}
	if err := allKnown("workload", names, known); err != nil {
		return Study{}, fmt.Errorf("study %s: %w", s.ID, err)
	}
	s.Workloads = slices.DeleteFunc(slices.Clone(s.Workloads), func(w Workload) bool { return !slices.Contains(names, w.Name) })
	for i := range s.Workloads {
		s.Workloads[i].Extra = false
	}
	return s.Detached(), nil
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
	known := make([]string, len(s.Environments))
	for i, l := range s.Environments {
		known[i] = l.Name
	}
	if err := allKnown("environment", names, slices.DeleteFunc(slices.Clone(known), func(n string) bool { return n == "" })); err != nil {
		return Study{}, fmt.Errorf("study %s: %w", s.ID, err)
	}
	s.Environments = slices.DeleteFunc(slices.Clone(s.Environments), func(l Environment) bool { return !slices.Contains(names, l.Name) })
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
		s.Workloads[i].Targets, s.Workloads[i].Except, s.Workloads[i].Once = all(w.Targets), all(w.Except), all(w.Once)
	}
	for i, v := range s.Interventions {
		s.Interventions[i].Target = one(v.Target)
		if v.Workload == "" {
			s.Interventions[i].Against = one(v.Against)
		}
	}
	for i, l := range s.Limits {
		s.Limits[i] = l.renamed(one)
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

// variants checks each variant by itself and the plan that it makes.
func (c *checker) variants(s Study) {
	for _, name := range slices.Sorted(maps.Keys(s.Variants)) {
		v, at := s.Variants[name], "variants."+name
		if !plain.MatchString(name) {
			c.fail(at, "%q is not a name for a variant: use lower-case letters, digits and dashes, at most 64", name)
		}
		c.distinct(at+".targets", v.Targets)
		c.distinct(at+".optional", v.Optional)
		c.environments(at+".environments", v.Environments)
		c.instances(at+".instances", v.Copies)
		c.instances(at+".control-instances", v.ControlCopies)
		c.instances(at+".concurrency", v.Concurrency)
		if slices.Contains(v.Optional, s.Control) {
			c.fail(at+".optional", "the control %q cannot be optional: every ratio refers to it", s.Control)
		}
		if v.Blocks > maxBlocks {
			c.fail(at+".blocks", "%d blocks: a study has at most %d", v.Blocks, maxBlocks)
		}
		names := make([]string, len(s.Workloads))
		for i, w := range s.Workloads {
			names[i] = w.Name
		}
		for w := range v.WorkloadParams {
			c.known(at+".workload-params."+w, "workload", w, names)
		}
		for what, levels := range map[string]map[string][]int{"instances": v.WorkloadCopies, "concurrency": v.WorkloadConcurrency} {
			for w, numbers := range levels {
				key := fmt.Sprintf("%s.workload-%s.%s", at, what, w)
				c.known(key, "workload", w, names)
				c.instances(key, numbers)
			}
		}
		if varied, err := s.Vary(name); err == nil {
			c.size(at, varied)
		}
	}
}
