package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
)

// chooseFlags take a part of a study, or another setting of it.
type chooseFlags struct {
	on           []string
	control      string
	quick        bool
	published    bool
	variant      string
	workloads    []string
	environments []string
	instances    []string
	concurrency  []string
	cpuset       string
	probes       []string
	noCounters   bool
	sets         []string // FACTOR=LEVELS

	apart []string // workloads that apply left out
}

func (f *chooseFlags) define(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.on, "on", nil, "targets instead of the study's own; the control is measured besides")
	flags.StringVar(&f.control, "control", "", "target that ratios refer to, instead of the study's own")
	flags.StringVar(&f.variant, "variant", "", "the study's variant of this name")
	flags.BoolVar(&f.quick, "quick", false, "the study's variant quick: the shapes, in minutes")
	flags.BoolVar(&f.published, "published", false, "the study's variant published: as it was done in the publication")
	flags.StringSliceVar(&f.workloads, "workloads", nil, "workloads (tests) of the study, by name; also those that are off by default")
	flags.StringSliceVar(&f.environments, "environments", nil, "environments of the study, by name")
	flags.StringSliceVar(&f.instances, "instances", nil, "instances (containers) at once, as 0..4 or 1,2,8; 0 is the control, which is always measured")
	flags.StringSliceVar(&f.concurrency, "concurrency", nil, "instances that are under way at one moment at most, as 100 or 1,10,100")
	flags.StringVar(&f.cpuset, "cpuset", "", "CPUs to run on, as 0-1,4 or first-2, in the environments that let an instance use all")
	flags.StringSliceVar(&f.probes, "probes", nil, "measure each cell once more, watched by a probe: locks (tare locks), stacks; --probes= for none")
	flags.BoolVar(&f.noCounters, "no-counters", false, "leave perf's counters out where many are started at once, which make starts some percent slower")
	flags.StringArrayVar(&f.sets, "set", nil, "levels of a factor, as threads=1,8 or mtu=1500,9000: a parameter of the study's workloads, a key of its environments, or message (bytes of one message)")
	for old, factor := range oldFlags {
		flags.Func(old, "", func(levels string) error { return flags.Set("set", factor+"="+levels) })
		flags.MarkDeprecated(old, fmt.Sprintf("write --set %s=LEVELS", factor)) //nolint:errcheck // fails for a flag that is not defined
	}
	for old, name := range oldNames {
		flags.Func(old, "", func(value string) error { return flags.Set(name, value) })
		flags.MarkDeprecated(old, "it is now called --"+name) //nolint:errcheck // as above
	}
	flags.Func("cpus", "", func(n string) error { return flags.Set("cpuset", "first-"+n) })
	flags.MarkDeprecated("cpus", "write --cpuset first-N; --set cpus=LEVELS limits CPU time") //nolint:errcheck // as above
}

// apply changes a study as the flags say. Every error is bad input.
func (f *chooseFlags) apply(flags *pflag.FlagSet, st study.Study) (study.Study, error) {
	if err := f.setFlags(flags); err != nil {
		return st, err
	}
	st, err := f.vary(st, flags)
	for _, flag := range []string{"workloads", "environments", "instances", "concurrency", "cpuset", "on", "control", "probes"} {
		if flags.Changed(flag) {
			st = st.Detached()
		}
	}
	if err == nil && flags.Changed("workloads") {
		st, err = st.Select(f.workloads)
	}
	if err == nil && flags.Changed("environments") {
		st, err = st.SelectEnvironments(f.environments)
	}
	if err == nil && flags.Changed("instances") {
		st, err = f.withInstances(st, flags)
	}
	if err == nil && flags.Changed("concurrency") {
		if st.Concurrency, err = parseCounts(f.concurrency); err != nil || len(st.Concurrency) == 0 {
			err = fmt.Errorf("--concurrency %s: name at least one number above 0", strings.Join(f.concurrency, ","))
		}
		if flags.Changed("workloads") {
			st = st.WithoutOwn(func(w *study.Workload) { w.Concurrency = nil })
		}
	}
	if err == nil && flags.Changed("cpuset") {
		st.Environments, err = withCPUSet(st.Environments, f.cpuset)
	}
	if err == nil && flags.Changed("probes") {
		st = st.Watch(f.probes)
	}
	if err == nil && f.noCounters {
		st, err = withoutCounters(st)
	}
	for _, one := range f.sets {
		if err == nil {
			st, err = set(st.Detached(), one)
		}
	}
	if err == nil {
		err = noTarget(flags, f.on)
	}
	if err == nil && flags.Changed("on") {
		st = onTargets(st, f.on)
	}
	if err == nil && flags.Changed("control") {
		st.Control = f.control
	}
	return st.WithArms(), err
}

// withInstances gives a study other numbers of instances, of a network's study other
// numbers of containers on it.
func (f *chooseFlags) withInstances(st study.Study, flags *pflag.FlagSet) (study.Study, error) {
	var err error
	if hasNetwork(st) {
		st.Environments, err = withContainers(st.Environments, f.instances, flags.Changed("variant"))
		return st, err
	}
	if st.Copies, err = parseCounts(f.instances); err != nil {
		return st, fmt.Errorf("containers at once: %w", err)
	}
	if len(st.Copies) == 0 { // 0 alone: the control alone
		st.Targets, st.Optional, st.Copies = []string{cmp.Or(st.Control, study.DefaultControl)}, nil, []int{1}
	}
	if flags.Changed("workloads") { // those that are named have no levels of their own then
		return st.WithoutOwn(func(w *study.Workload) { w.Copies = nil }), nil
	}
	st, f.apart = st.Alike()
	return st.Watch(st.Probes), nil // what a study watches by itself takes trials of its own
}

// onTargets is a study on these targets alone, without the workloads that are measured on
// others alone.
func onTargets(st study.Study, targets []string) study.Study {
	st.Targets, st.Optional = targets, nil
	other := func(target string) bool { return !slices.Contains(targets, target) }
	var workloads []study.Workload
	for _, w := range st.Workloads {
		w.Except = nil
		if len(w.Targets) > 0 {
			if w.Targets = slices.DeleteFunc(slices.Clone(w.Targets), other); len(w.Targets) == 0 {
				continue
			}
		}
		workloads = append(workloads, w)
	}
	st.Workloads = workloads
	return st
}

// noTarget refuses --on without a name, as a variable that is empty gives it: it would
// count as a flag that was left out.
func noTarget(flags *pflag.FlagSet, on []string) error {
	if flags.Changed("on") && len(on) == 0 {
		return errors.New("--on names no target: name one, or leave --on out")
	}
	return nil
}

// growth is the variant that numbers of containers on a network are measured in,
// unless another one is asked for.
const growth = "growth"

// vary takes the variant that is asked for.
func (f *chooseFlags) vary(st study.Study, flags *pflag.FlagSet) (study.Study, error) {
	var names []string
	for name, wanted := range map[string]bool{"quick": f.quick, "published": f.published, f.variant: f.variant != ""} {
		if wanted {
			names = append(names, name)
		}
	}
	if _, has := st.Variants[growth]; has && len(names) == 0 && flags.Changed("instances") && hasNetwork(st) {
		names = []string{growth}
	}
	switch len(names) {
	case 0:
		return st, nil
	case 1:
		return st.Vary(names[0])
	}
	slices.Sort(names)
	return st, fmt.Errorf("variants %s exclude each other: take one", strings.Join(names, " and "))
}

// mostCounts bounds a list of counts, which a mistyped range could make endless.
const mostCounts = 1000

// parseCounts reads numbers and ranges of numbers, 0 left out.
func parseCounts(items []string) ([]int, error) {
	var counts []int
	for _, item := range items {
		low, high, isRange := strings.Cut(item, "..")
		a, err := strconv.Atoi(strings.TrimSpace(low))
		b := a
		if err == nil && isRange {
			b, err = strconv.Atoi(strings.TrimSpace(high))
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("%q is not a number or a range: write 0..4 or 1,2,8", item)
		case a < 0 || b < a:
			return nil, fmt.Errorf("%q is no range that goes up from 0 or more", item)
		case b-a >= mostCounts:
			return nil, fmt.Errorf("%q has more than %d numbers", item, mostCounts)
		}
		for n := a; n <= b; n++ {
			counts = append(counts, n)
		}
	}
	if len(counts) == 0 {
		return nil, errors.New("no number is named: write 0..4 or 1,2,8")
	}
	slices.Sort(counts)
	return slices.DeleteFunc(slices.Compact(counts), func(n int) bool { return n == 0 }), nil
}

// hasNetwork reports whether a study's levels say what stands on a network: there
// instances are the containers attached to it.
func hasNetwork(st study.Study) bool {
	return slices.ContainsFunc(st.Environments, func(l study.Environment) bool { return l.Network != nil })
}

// withContainers makes one level for each number of containers: of the first level
// with a network, or of each that differs in more than its number from those before.
func withContainers(levels []study.Environment, numbers []string, each bool) ([]study.Environment, error) {
	counts, err := parseCounts(numbers)
	if err != nil {
		return nil, fmt.Errorf("--instances %s: %w", strings.Join(numbers, ","), err)
	}
	var all []study.Environment
	seen := map[study.Network]bool{}
	for _, base := range levels {
		if base.Network == nil || len(seen) > 0 && !each {
			continue
		}
		network := *base.Network
		network.Containers = 0
		if seen[network] {
			continue
		}
		for _, n := range counts {
			level, own := base, network
			own.Containers = n
			level.Name, level.Network = fmt.Sprintf("n%d", n), &own
			if len(seen) > 0 {
				level.Name += "-" + base.Name
			}
			all = append(all, level)
		}
		seen[network] = true
	}
	if len(all) == 0 {
		return nil, errors.New("--instances 0: two talk, so there are at least 2")
	}
	return all, nil
}

// withCPUSet binds the levels that may use all CPUs to some of them.
func withCPUSet(levels []study.Environment, cpus string) ([]study.Environment, error) {
	if len(levels) == 0 {
		levels = []study.Environment{{}}
	}
	levels, bound := slices.Clone(levels), false
	for i, l := range levels {
		if l.CPUSet == "" && l.CPUs == 0 {
			levels[i].CPUSet, bound = cpus, true
		}
	}
	if !bound {
		return nil, errors.New("--cpuset: no environment of the study lets an instance use all CPUs")
	}
	return levels, nil
}

// withoutCounters leaves perf's counters out of a study that has them.
func withoutCounters(st study.Study) (study.Study, error) {
	counted := func(w study.Workload) bool {
		return w.Kind == workload.KindHold || len(st.Concurrency)+len(w.Concurrency) > 0
	}
	if !slices.ContainsFunc(st.Workloads, counted) {
		return st, fmt.Errorf("--no-counters: the study %s starts nothing at a bounded concurrency, and holds nothing: it has no counters", st.ID)
	}
	no := false
	st.Counters = &no
	return st, nil
}
