package preflight

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/netpath"
	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/workload"
)

// cgroups refuses limits where this user cannot make the cgroups that hold them.
func cgroups(_ context.Context, q *Question) ([]Outcome, error) {
	for _, level := range q.Study.Environments {
		limited, idle, bound := limits(level), level.Idle, level.CPUSet+level.Mems != ""
		if level.Load != nil {
			limited, idle, bound = limited || limits(level.Load.Environment()), idle || level.Load.Idle, bound || level.Load.CPUSet+level.Load.Mems != ""
		}
		if idle && q.Machine.Limits() && !q.Machine.Idles() {
			return refuse(&driver.CannotError{Target: "the environment " + level.Name, Lacks: "cgroups that can be idle (cpu.idle)", Remedy: "use Linux 5.15 or later, with CONFIG_FAIR_GROUP_SCHED"}), nil
		}
		if bound && q.Machine.Limits() && !q.Machine.Binds() {
			return refuse(&driver.CannotError{Target: "the environment " + level.Name, Lacks: "cgroups with cpuset that this user may make", Remedy: "run as root, or have the controller cpuset delegated (systemd: Delegate=cpuset)"}), nil
		}
		if limited && !q.Machine.Limits() {
			return refuse(&driver.CannotError{Target: "a target with limits", Lacks: "cgroups that this user may make", Remedy: "run as root, or in a delegated cgroup v2"}), nil
		}
	}
	return nil, nil
}

func limits(l study.Environment) bool {
	return l.CPUs > 0 || l.CPUSet != "" || l.Mems != "" || l.Shares > 0 || l.Idle || l.Memory > 0 || l.Pids > 0
}

// optionalLevels skips the optional levels that this machine cannot give. Where none is
// left, and the study has no other, it refuses.
func optionalLevels(ctx context.Context, q *Question) ([]Outcome, error) {
	allowed, err := q.Machine.CPUs()
	if err != nil {
		return nil, err
	}
	var skipped []Outcome
	var last error
	for _, l := range q.Study.OptionalEnvironments {
		alone := *q
		alone.Study.Environments = []study.Environment{l}
		reason := levelCPUs(l, allowed)
		for _, look := range []func(context.Context, *Question) ([]Outcome, error){cgroups, settings, parameters} {
			found, err := look(ctx, &alone)
			if err != nil {
				return nil, err
			}
			if reason == nil && len(found) > 0 {
				reason = found[0].Reason
			}
		}
		if reason == nil {
			continue
		}
		last = fmt.Errorf("environment %s: %w", l.Name, reason)
		why := last
		if errors.As(reason, new(*moreCPUsError)) { // the same words for each, so that they are said once
			why = fmt.Errorf("environments of more CPUs than the %d that may be used here (%s)", len(allowed), sys.FormatCPUs(allowed))
		}
		skipped = append(skipped, Outcome{Skip, l.Name, why})
	}
	if len(skipped) > 0 && len(skipped) == len(q.Study.OptionalEnvironments) && len(q.Study.Environments) == 0 {
		return refuse(fmt.Errorf("study %s: no environment is left: %w", q.Study.ID, last)), nil
	}
	return skipped, nil
}

// loads skips cells whose load has no target here.
func loads(_ context.Context, q *Question, c study.Cell) (Outcome, error) {
	if c.Limits.Load == nil {
		return Outcome{}, nil
	}
	if _, works := q.Targets[c.Limits.Load.On()]; works {
		return Outcome{}, nil
	}
	return Outcome{Verdict: Skip, Reason: fmt.Errorf("the load of the environment %s runs on the target %s, which does not work here: tare check says why", c.Environment, c.Limits.Load.On())}, nil
}

// Families of targets that keep files of their own.
var keepers = []string{"engine", "vm"}

// images skips cells whose target cannot be given a level's files: what engines and
// virtual machines start is a copy that tare cannot evict, nor make of a whole machine.
func images(_ context.Context, q *Question, c study.Cell) (Outcome, error) {
	family := q.Targets[c.Target].Driver.Properties().Family
	cold := c.Limits.PageCache == study.PageCacheCold
	switch {
	case c.Limits.Image == study.ImageHost && slices.Contains(keepers, family):
		return Outcome{Verdict: Skip, Reason: fmt.Errorf("%s keeps a copy of its images, and this machine's own files are no image: only the host, native and OCI runtimes run on them", c.Target)}, nil
	case cold && slices.Contains(keepers, family):
		return Outcome{Verdict: Skip, Reason: fmt.Errorf("%s keeps a copy of its images, whose pages tare cannot give up (page-cache: cold)", c.Target)}, nil
	case cold && c.Set != "":
		return Outcome{Verdict: Refuse, Reason: fmt.Errorf("the environment %s has page-cache: cold, which is for starts, and the workload %s takes turns in rounds: name the workload's environments, or leave one of them out", c.Environment, c.Workload)}, nil
	}
	return Outcome{}, nil
}

// settings refuses levels that change the whole machine where the user has not
// allowed that.
func settings(_ context.Context, q *Question) ([]Outcome, error) {
	if q.AllowSysctl {
		return nil, nil
	}
	for _, level := range q.Study.Environments {
		if g := level.Guest; g != nil && g.HugePages {
			return refuse(fmt.Errorf("the environment %s takes memory of the whole machine for its pool of huge pages (/sys/kernel/mm/hugepages) while it is measured: allow it with --allow-sysctl, or choose other environments with --environments", level.Name)), nil
		}
		if g := level.Guest; g != nil && g.KSM {
			return refuse(fmt.Errorf("the environment %s turns on KSM for the whole machine (/sys/kernel/mm/ksm/run) while it is measured: allow it with --allow-sysctl, or choose other environments with --environments", level.Name)), nil
		}
		if n := level.Network; n != nil && n.Limit > 0 {
			return refuse(fmt.Errorf("the environment %s sets the whole machine's limit of neighbours (net.ipv4.neigh.default.gc_thresh*) to %d while it is measured: allow it with --allow-sysctl, or choose other environments with --environments", level.Name, n.Limit)), nil
		}
	}
	return nil, nil
}

// addresses refuses ranges that this machine uses itself, where a target is on a
// path that has addresses.
func addresses(_ context.Context, q *Question) ([]Outcome, error) {
	if !slices.ContainsFunc(q.Wanted, func(d driver.Driver) bool {
		on, placed := driver.As[*netpath.Driver](d)
		return placed && on.Addressed()
	}) {
		return nil, nil
	}
	var ranges []string
	for _, level := range q.Study.Environments {
		ranges = append(ranges, NetworkOf(level.Network).Range)
	}
	if len(ranges) == 0 {
		ranges = []string{""} // the default
	}
	for _, r := range slices.Compact(ranges) {
		if err := q.Machine.UnusedRange(r); err != nil {
			return refuse(fmt.Errorf("%w, with --set range=... or as the range of a level's network", err)), nil
		}
	}
	return nil, nil
}

// waits refuses interventions whose wait no probe records: no change of it could
// ever be shown.
func waits(_ context.Context, q *Question) ([]Outcome, error) {
	var names []string
	for _, m := range profile.Metrics() {
		names = append(names, m.Name)
	}
	for _, v := range q.Study.Interventions {
		if v.Wait != "" && !slices.Contains(names, v.Wait) {
			return refuse(fmt.Errorf("intervention %q: no probe records the wait %q; known waits: %s", v.Name, v.Wait, strings.Join(names, ", "))), nil
		}
	}
	return nil, nil
}

// probes refuses a study whose probes do not work here.
func probes(_ context.Context, q *Question) ([]Outcome, error) {
	for _, p := range q.Study.Probes {
		switch err := q.Machine.Watch(p); {
		case cannot(err):
			return refuse(err), nil
		case err != nil:
			return nil, err
		}
	}
	return nil, nil
}

// optionalProbes skips those that do not work here. One that the study requires too
// is proven already.
func optionalProbes(_ context.Context, q *Question) ([]Outcome, error) {
	var all []Outcome
	for _, p := range q.Study.OptionalProbes {
		if slices.Contains(q.Study.Probes, p) {
			continue
		}
		if err := q.Machine.Watch(p); err != nil {
			all = append(all, Outcome{Skip, p, fmt.Errorf("the probe %s is skipped: %w", p, err)})
		}
	}
	return all, nil
}

// programs skips an optional workload whose programs cannot be had, and refuses a study
// of which nothing is left then.
func programs(_ context.Context, q *Question) ([]Outcome, error) {
	var all []Outcome
	for _, w := range q.Study.Workloads {
		if !w.Optional || q.Lacks == nil {
			continue
		}
		if err := q.Lacks(w); err != nil {
			all = append(all, Outcome{Skip, w.Name, fmt.Errorf("workload %s is skipped: %w", w.Name, err)})
		}
	}
	if len(all) > 0 && len(all) == len(q.Study.Workloads) {
		return refuse(fmt.Errorf("nothing is left to measure: %w", all[0].Reason)), nil
	}
	return all, nil
}

// architecture refuses required targets that only other architectures have.
func architecture(_ context.Context, q *Question) ([]Outcome, error) {
	if err := Foreign(q.Study.Required(), q.Foreign, q.Machine.Arch()); err != nil {
		return refuse(err), nil
	}
	return nil, nil
}

// Foreign is a *driver.CannotError where one of the targets is in foreign, the names
// that only other architectures have, each with these.
func Foreign(targets []string, foreign map[string][]string, arch string) error {
	for _, name := range targets {
		base, _, _ := strings.Cut(name, study.PathSign)
		if of, ok := foreign[base]; ok {
			return &driver.CannotError{Target: name, Lacks: fmt.Sprintf("it is for %s, and this machine is %s", strings.Join(of, ", "), arch), Remedy: "tare check lists those of this machine"}
		}
	}
	return nil
}

// parameters refuses a parameter, of the study or of a level, that no kind of
// workload has: it would promise something and do nothing.
func parameters(_ context.Context, q *Question) ([]Outcome, error) {
	var known []string
	for _, kind := range workload.All() {
		for _, p := range kind.Params() {
			known = append(known, p.Name)
		}
	}
	slices.Sort(known)
	known = slices.Compact(known)
	err := unknownParameter("params", q.Study.Params, known)
	for i, l := range q.Study.Environments {
		if err == nil {
			err = unknownParameter(fmt.Sprintf("environments[%d].params", i), l.Params, known)
		}
	}
	if err != nil {
		return refuse(fmt.Errorf("study %s: %w", q.Study.ID, err)), nil
	}
	return nil, nil
}

func unknownParameter(where string, params map[string]string, known []string) error {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if slices.Contains(known, name) {
			continue
		}
		if near := study.Nearest(name, known); near != "" {
			return fmt.Errorf("%s: no workload has a parameter %q; did you mean %q?", where, name, near)
		}
		return fmt.Errorf("%s: no workload has a parameter %q; known parameters: %s", where, name, strings.Join(known, ", "))
	}
	return nil
}

// blocks notes that a verdict takes more blocks than the study has.
func blocks(_ context.Context, q *Question) ([]Outcome, error) {
	groups := Compared(q.Study, q.Cells)
	if len(groups) == 0 {
		return nil, nil
	}
	most := slices.Max(slices.Collect(maps.Values(groups)))
	if err := analysis.CheckPlan(q.Study.Blocks, q.Study.LastAlpha(q.Study.Blocks), most, slices.ContainsFunc(q.Cells, func(c study.Cell) bool { return c.AA })); err != nil {
		return []Outcome{{Verdict: Note, Reason: err}}, nil
	}
	return nil, nil
}

// Compared is among how many cells the verdicts of each group are judged.
func Compared(st study.Study, cells []study.Cell) map[string]int {
	groups := map[string]int{}
	for _, c := range cells {
		if !c.Control && !c.AA {
			groups[c.Group]++
		}
	}
	for group, n := range groups { // interventions are judged together, whatever groups their arms are in
		groups[group] = max(n, len(st.Interventions))
	}
	return groups
}
