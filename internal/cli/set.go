package cli

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
)

// messageFactor is the factor of --set whose levels are the bytes of one message.
const messageFactor = "message"

// oldFlags are flags of earlier versions, each for one factor, which are still read.
var oldFlags = map[string]string{"copies-inside": "copies", "threads": "threads", "each": "each", "sizes": messageFactor, "range": "range"}

// oldNames are flags of earlier versions, and what they are called now. They are still read.
var oldNames = map[string]string{"tests": "workloads", "protocol": "workloads", "containers": "instances", "rootfs": "guest-rootfs"}

// flagFactors are factors that have a flag of their name.
var flagFactors = []string{"instances", "containers", "concurrency", "workloads", "environments"}

// setFlags gives the factors that have a flag to that flag. A factor that stands twice is
// refused: the second would replace the first.
func (f *chooseFlags) setFlags(flags *pflag.FlagSet) error {
	var rest []string
	had := map[string]string{} // levels by factor
	for _, one := range f.sets {
		factor, levels, ok := strings.Cut(one, "=")
		if !ok || factor == "" || levels == "" {
			return fmt.Errorf("--set %s: write --set FACTOR=LEVELS, as threads=1,8", one)
		}
		if before, twice := had[factor]; twice {
			return fmt.Errorf("--set %s: %s stands twice: write --set %s=%s,%s", one, factor, factor, before, levels)
		}
		had[factor] = levels
		if !slices.Contains(flagFactors, factor) {
			rest = append(rest, one)
			continue
		}
		if err := flags.Set(factor, levels); err != nil {
			return fmt.Errorf("--set %s: %w", one, err)
		}
	}
	f.sets = rest
	return nil
}

// set gives a factor of a study its levels.
func set(st study.Study, one string) (study.Study, error) {
	factor, text, _ := strings.Cut(one, "=")
	levels := strings.Split(text, ",")
	var err error
	switch has := workloadsWith(st, factor); {
	case factor == messageFactor:
		st, err = withSizes(st, levels)
	case factor == "kernels":
		st.Kernels, st.Control = levels, ""
	case slices.Contains(study.EnvironmentKeys(), factor):
		st, err = withKey(st, factor, levels)
	case len(has) == 0:
		return st, fmt.Errorf("--set %s: no workload of study %s has a parameter %s; environments have the keys %s%s", one, st.ID, factor, strings.Join(study.EnvironmentKeys(), ", "), study.Meant(factor, factorsOf(st)))
	default:
		st, err = withParam(st, has, factor, levels)
	}
	if err != nil {
		return st, fmt.Errorf("--set %s: %w", one, err)
	}
	return st, nil
}

// factorsOf are the factors that --set can give levels for a study.
func factorsOf(st study.Study) []string {
	all := slices.Concat(flagFactors, []string{messageFactor, "kernels"}, study.EnvironmentKeys())
	for _, w := range st.Workloads {
		if kind, err := workload.ByKind(w.Kind); err == nil {
			for _, p := range kind.Params() {
				all = append(all, p.Name)
			}
		}
	}
	return all
}

// workloadsWith are the indices of the workloads that have a parameter.
func workloadsWith(st study.Study, name string) (has []int) {
	for i, w := range st.Workloads {
		kind, err := workload.ByKind(w.Kind)
		if err == nil && slices.ContainsFunc(kind.Params(), func(p workload.Param) bool { return p.Name == name }) {
			has = append(has, i)
		}
	}
	return has
}

// withParam gives a parameter its levels: in the environments that have it, or one
// level in the workloads themselves.
func withParam(st study.Study, has []int, name string, levels []string) (study.Study, error) {
	levels, err := absolute(st.Workloads[has[0]], name, levels)
	if err == nil {
		levels, err = numbered(levels)
	}
	if err != nil {
		return st, err
	}
	for _, level := range levels {
		for _, i := range has {
			if err := takes(st.Workloads[i], name, level); err != nil {
				return st, err
			}
		}
	}
	ofEnvironments := slices.ContainsFunc(st.Environments, func(l study.Environment) bool { return l.Params[name] != "" })
	switch {
	case len(levels) == 1 && slices.ContainsFunc(st.Environments, func(l study.Environment) bool { return l.Params[name] == study.PerCPU }):
		st.Environments = slices.Clone(st.Environments)
		for i, l := range st.Environments {
			if l.Params[name] == study.PerCPU {
				st.Environments[i].Params = withEntry(l.Params, name, levels[0])
			}
		}
	case ofEnvironments || len(levels) > 1:
		st = crossed(st, baseLevels(st.Environments, name), levels, func(l study.Environment, level string) study.Environment {
			l.Params = withEntry(l.Params, name, level)
			return named(l, level+"-"+name)
		})
	default:
		st.Workloads = slices.Clone(st.Workloads)
		for _, i := range has {
			st.Workloads[i].Params = withEntry(st.Workloads[i].Params, name, levels[0])
		}
	}
	return st, nil
}

// absolute makes the levels of a parameter that is a directory absolute, so that they
// are the same from everywhere.
func absolute(w study.Workload, name string, levels []string) ([]string, error) {
	kind, err := workload.ByKind(w.Kind)
	if err != nil {
		return nil, err
	}
	params := kind.Params()
	i := slices.IndexFunc(params, func(p workload.Param) bool { return p.Name == name })
	if params[i].Type != workload.Directory {
		return levels, nil
	}
	all := slices.Clone(levels)
	for j, level := range levels {
		if level == params[i].Default {
			continue
		}
		if all[j], err = filepath.Abs(level); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// takes checks a parameter's value.
func takes(w study.Workload, name, value string) error {
	kind, err := workload.ByKind(w.Kind)
	if err != nil {
		return err
	}
	if _, ok := study.PerCPUTimes(value); ok {
		return nil
	}
	i := slices.IndexFunc(kind.Params(), func(p workload.Param) bool { return p.Name == name })
	if _, err := workload.Check(kind.Params()[i:i+1], map[string]string{name: value}); err != nil {
		return fmt.Errorf("workload %s: %w", w.Name, err)
	}
	return nil
}

// numbered writes out ranges of numbers, as 1..4.
func numbered(levels []string) (all []string, err error) {
	for _, level := range levels {
		if !strings.Contains(level, "..") {
			all = append(all, level)
			continue
		}
		counts, err := parseCounts([]string{level})
		if err != nil {
			return nil, err
		}
		for _, n := range counts {
			all = append(all, strconv.Itoa(n))
		}
	}
	return all, nil
}

// baseLevels are environments without a parameter, those apart that differ in more.
func baseLevels(levels []study.Environment, name string) (bases []study.Environment) {
	had := false
	for _, l := range levels {
		if l.Params[name] != "" {
			l.Params, had = without(l.Params, name), true
		}
		if !slices.ContainsFunc(bases, func(b study.Environment) bool { return sameBut(b, l) }) {
			bases = append(bases, l)
		}
	}
	switch {
	case len(bases) == 0:
		return []study.Environment{{}}
	case len(bases) == 1 && had:
		bases[0].Name = "" // it had the old level in it
	}
	return bases
}

// sameBut reports whether environments differ in their names alone.
func sameBut(a, b study.Environment) bool {
	b.Name = a.Name
	return maps.Equal(a.Params, b.Params) && reflect.DeepEqual(withoutParams(a), withoutParams(b))
}

func withoutParams(l study.Environment) study.Environment {
	l.Params = nil
	return l
}

// crossed is a study with each environment at each level. A workload that names its
// environments gets the names of the new ones.
func crossed(st study.Study, bases []study.Environment, levels []string, at func(study.Environment, string) study.Environment) study.Study {
	st.Environments = nil
	became := map[string][]string{}
	for _, b := range bases {
		for _, level := range levels {
			one := at(b, level)
			st.Environments = append(st.Environments, one)
			became[b.Name] = append(became[b.Name], one.Name)
		}
	}
	st.Workloads = slices.Clone(st.Workloads)
	for i, w := range st.Workloads {
		var in []string
		for _, name := range w.Environments {
			if now := became[name]; now != nil {
				in = append(in, now...)
			} else {
				in = append(in, name) // an optional one, or one that a check will refuse
			}
		}
		st.Workloads[i].Environments = in
	}
	return st
}

// named is an environment with a level in its name.
func named(l study.Environment, level string) study.Environment {
	if l.Name != "" {
		level = l.Name + "-" + level
	}
	l.Name = study.NameOf(level)
	return l
}

// withKey gives a key of every environment its levels. With one level, environments
// keep their names.
func withKey(st study.Study, key string, levels []string) (study.Study, error) {
	bases := st.Environments
	if len(bases) == 0 {
		bases = []study.Environment{{}}
	}
	var failed error
	st = crossed(st, bases, levels, func(l study.Environment, level string) study.Environment {
		changed, err := l.With(key, level)
		failed = errors.Join(failed, err)
		if len(levels) > 1 || l.Name == "" {
			changed = named(changed, key+"-"+level)
		}
		return changed
	})
	return st, failed
}

func withEntry(params map[string]string, name, value string) map[string]string {
	params = maps.Clone(params)
	if params == nil {
		params = map[string]string{}
	}
	params[name] = value
	return params
}

// messageSizes are the parameters that say how many bytes a message has.
var messageSizes = []string{"bytes", "length"}

// withSizes makes each measured workload with a message size one for each size
// that it takes; the others are not measured.
func withSizes(st study.Study, sizes []string) (study.Study, error) {
	var all []study.Workload
	for _, size := range sizes {
		var errs []error
		before := len(all)
		for _, w := range st.Measured() {
			one, err := withSize(w, size)
			if errs = append(errs, err); err == nil && one.Name != "" {
				all = append(all, one)
			}
		}
		if len(all) > before {
			continue
		}
		if err := errors.Join(errs...); err != nil {
			return st, fmt.Errorf("%s: %w", size, err)
		}
		return st, fmt.Errorf("%s: no workload that is measured has messages", size)
	}
	st.Workloads = all
	return st, nil
}

// withSize is a workload with messages of a size; without a name where it has none.
func withSize(w study.Workload, size string) (study.Workload, error) {
	kind, err := workload.ByKind(w.Kind)
	if err != nil {
		return w, err
	}
	i := slices.IndexFunc(kind.Params(), func(p workload.Param) bool {
		return p.Type == workload.Size && slices.Contains(messageSizes, p.Name)
	})
	if i < 0 {
		return study.Workload{}, nil
	}
	w.Name += "-" + size
	params := map[string]string{kind.Params()[i].Name: size}
	if _, err := workload.Check(kind.Params()[i:i+1], params); err != nil {
		return w, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	maps.Copy(params, without(w.Params, kind.Params()[i].Name))
	w.Params = params
	return w, nil
}

func without(params map[string]string, name string) map[string]string {
	params = maps.Clone(params)
	delete(params, name)
	return params
}
