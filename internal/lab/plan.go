package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tarelab/tare/helpers"
	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/netpath"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/probe"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/schedule"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/workload"
)

// Options of a plan, beside the study.
type Options struct {
	Seed   *uint64 // of the order; nil: drawn
	Rootfs string  // a directory to run in, instead of the workbench
	Image  string  // an image to run in: OCI layout, or a tar
	Exact  bool    // the numbers of copies were asked for: one that has no room here is refused, not left out
}

// Plan is a run that is ready to be measured, or to go on.
type Plan struct {
	Run      *store.Run
	Manifest store.Manifest
	Notes    []string      // what the user should know before it starts
	Estimate time.Duration // of what is still to be done

	trials  []schedule.Trial // of the whole run; those that are done are skipped
	drivers map[string]driver.Driver
	jobs    map[jobKey]workload.Job
	opens   map[jobKey][]string // files that a job's command looks up when it starts
	cpusets map[string]string   // as the study asks for them -> as they are on this machine
	root    image.Root
	user    driver.User // of the image's own command
}

// jobKey is what a job depends on: a workload of the study and the level's name.
type jobKey struct{ workload, environment string }

// Primary is the metric that a cell's workload is judged by.
func (p *Plan) Primary(c study.Cell) sample.Metric { return p.Manifest.Metrics[c.Workload][0] }

// Plan checks a study against this machine and makes its run. Nothing has been
// measured when it returns, except the pilot that tells how small an effect the
// blocks can show.
func (l *Lab) Plan(ctx context.Context, st study.Study, o Options) (*Plan, error) {
	st = st.WithDefaults()
	st.Workloads, st.Variants = st.Measured(), nil // what is recorded is what is measured
	l.name(ctx, named(st))
	if err := st.Validate(l.known()); err != nil {
		return nil, &InputError{err}
	}
	st = st.OnPaths()
	if err := l.canLimit(st); err != nil {
		return nil, err
	}
	if err := l.canSet(st); err != nil {
		return nil, err
	}
	if err := l.canAddress(st); err != nil {
		return nil, err
	}
	if err := knownWaits(st); err != nil {
		return nil, err
	}
	if err := canWatch(st.Probes...); err != nil {
		return nil, err
	}
	st, unwatched := watchable(st, canWatch)
	compiler, err := helpers.Compiler()
	if err != nil {
		return nil, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("current directory: %w", err)
	}
	p := &Plan{Notes: slices.Concat(l.notes, unwatched), Manifest: store.Manifest{
		Tool: l.config.Version, Compiler: compiler, Command: l.config.Command, Created: time.Now().UTC(),
		Study: st, Seed: rand.Uint64(), Host: hostinfo.Gather(), Guest: &l.config.Guest, Dir: dir,
	}}
	if o.Seed != nil {
		p.Manifest.Seed = *o.Seed
	}
	if err := l.resolve(ctx, p, o); err != nil {
		return nil, err
	}
	p.settlePaths(o)
	m := &p.Manifest
	if slices.ContainsFunc(m.Cells, p.many) {
		if m.MissingCounters, err = (probe.Many{Uncounted: p.uncounted()}).Missing(); err != nil {
			return nil, err
		}
	}
	p.trials = trialsOf(*m)
	m.Trials = len(p.trials)
	p.promise()
	if err := l.pilot(ctx, p); err != nil {
		return nil, err
	}
	if p.Run, err = store.Create(l.config.StateDir, *m); err != nil {
		return nil, err
	}
	p.Manifest = p.Run.Manifest()
	return p, nil
}

// named are the targets that a study names.
func named(st study.Study) []string {
	return slices.Concat([]string{st.Control}, st.Targets, st.Optional, st.Beside)
}

// canLimit refuses limits where this user can make no cgroups to set them in.
func (l *Lab) canLimit(st study.Study) error {
	for _, level := range st.Limits {
		limited := level.CPUs > 0 || level.CPUSet != "" || level.Memory > 0 || level.Pids > 0
		if limited && !l.groups.trees.Usable() {
			return &driver.CannotError{Target: "a target with limits", Lacks: "cgroups that this user may make", Remedy: "run as root, or in a delegated cgroup v2"}
		}
	}
	return nil
}

// canSet refuses levels that change the machine where the user has not allowed it.
func (l *Lab) canSet(st study.Study) error {
	for _, level := range st.Limits {
		if g := level.Guest; g != nil && g.KSM && !l.config.AllowSysctl {
			return &InputError{fmt.Errorf("the level %s turns the machine's KSM on (/sys/kernel/mm/ksm/run) while it is measured: allow it with --allow-sysctl, or choose others with --environments", level.Name)}
		}
		if n := level.Network; n != nil && n.Limit > 0 && !l.config.AllowSysctl {
			return &InputError{fmt.Errorf("the level %s sets the limit of neighbours of the whole machine (net.ipv4.neigh.default.gc_thresh*) to %d while it is measured: allow it with --allow-sysctl, or choose others with --environments", level.Name, n.Limit)}
		}
	}
	return nil
}

// Resume makes the plan of a run that was broken off. The image, the targets and
// what is asked of virtual machines must be what they were.
func (l *Lab) Resume(ctx context.Context, ref *store.Run) (*Plan, error) {
	m := ref.Manifest()
	if m.Study.ID == BootStudy {
		return nil, &InputError{errors.New("boots of tare boot run do not go on: call it again; those that ended are in the run's report")}
	}
	l.name(ctx, named(m.Study))
	if err := errors.Join(l.canSet(m.Study), l.canAddress(m.Study), sameGuest(m.Guest, l.config.Guest), canPrepare(m)); err != nil {
		return nil, err
	}
	p := &Plan{Manifest: m}
	o := Options{Rootfs: m.Rootfs, Image: m.ImageSource}
	if err := l.resolve(ctx, p, o); err != nil {
		return nil, err
	}
	if err := sameGround(m, p.Manifest); err != nil {
		return nil, err
	}
	p.Manifest = m
	if err := p.fitMany(true); err != nil {
		return nil, err
	}
	p.trials = trialsOf(m)
	var err error
	if p.Run, err = store.Resume(ref.Dir()); err != nil {
		return nil, err
	}
	p.Notes = append(p.Notes, p.Run.Notes()...)
	p.Estimate = newPace(p, p.Run.Done()).left()
	return p, nil
}

// trialsOf is the order of a run's trials. Runs from before there was a choice
// have cold trials.
func trialsOf(m store.Manifest) []schedule.Trial {
	first := schedule.Cold
	if m.Study.Cold != nil && !*m.Study.Cold {
		first = 0
	}
	return schedule.PlanFrom(first, m.Cells, m.Study.Blocks, m.Seed)
}

// canPrepare refuses to go on with a run whose prepare commands ran in a directory that
// is no longer there.
func canPrepare(m store.Manifest) error {
	prepares := slices.ContainsFunc(m.Study.Workloads, func(w study.Workload) bool { return len(w.Prepare) > 0 })
	if info, err := os.Stat(m.Dir); prepares && m.Dir != "" && (err != nil || !info.IsDir()) {
		return &InputError{fmt.Errorf("the run's prepare commands ran in %s, which is no directory now: make it again, or start the run anew", m.Dir)}
	}
	return nil
}

// sameGuest refuses to go on with other guests than a run began with, where it says
// with which. Kernels are told by their digests (sameGround).
func sameGuest(before *driver.Guest, now driver.Guest) error {
	if before == nil {
		return nil
	}
	was := *before
	was.Kernel, now.Kernel = "", ""
	if was != now {
		return &InputError{fmt.Errorf("of virtual machines is asked now: %v; and was when the run began: %v; leave these flags out to go on as it began, or start it anew", now, was)}
	}
	return nil
}

// sameGround refuses to go on with a run on another ground than it began on.
func sameGround(before, now store.Manifest) error {
	if before.Image != now.Image {
		return &InputError{fmt.Errorf("the image is %s now and was %s: the programs on this machine have changed, so the run cannot go on; start it anew", now.Image, before.Image)}
	}
	if before.Host.Kernel != now.Host.Kernel {
		return &InputError{fmt.Errorf("the kernel is %s now and was %s: the run cannot go on; start it anew", now.Host.Kernel, before.Host.Kernel)}
	}
	for name, facts := range before.Targets {
		if got, ok := now.Targets[name]; !ok || got.Version != facts.Version || got.Digest != facts.Digest || got.Notes[driver.NoteAccel] != facts.Notes[driver.NoteAccel] || got.Notes[driver.NoteGuestKernel] != facts.Notes[driver.NoteGuestKernel] {
			return &InputError{fmt.Errorf("target %s is not what it was when the run began (%s): start it anew", name, facts.Version)}
		}
	}
	return nil
}

// known are the names of this build's targets, of whatever architecture: a study that
// names one where it may be missing is valid everywhere.
func (l *Lab) known() study.Known {
	known := study.Known{}
	for _, d := range l.drivers {
		known.Targets = append(known.Targets, d.Name())
	}
	known.Targets = append(known.Targets, slices.Sorted(maps.Keys(l.config.Foreign))...)
	for _, p := range netpath.Paths() {
		known.Paths = append(known.Paths, string(p))
	}
	for _, w := range workload.All() {
		known.Kinds = append(known.Kinds, w.Kind())
	}
	return known
}

// foreign refuses targets that another architecture has.
func (l *Lab) foreign(names []string) error {
	for _, name := range names {
		base, _, _ := strings.Cut(name, study.PathSign)
		if of, ok := l.config.Foreign[base]; ok {
			return &driver.CannotError{Target: name, Lacks: fmt.Sprintf("it is for %s, and this machine is %s", strings.Join(of, ", "), runtime.GOARCH), Remedy: "tare check lists those of this machine"}
		}
	}
	return nil
}

// resolve fills in what the study means on this machine: targets, jobs, image,
// cells.
func (l *Lab) resolve(ctx context.Context, p *Plan, o Options) error {
	p.Manifest.Host = hostinfo.Gather()
	if err := l.foreign(p.Manifest.Study.Required()); err != nil {
		return err
	}
	if err := p.settleJobs(); err != nil {
		return err
	}
	if err := l.settleRoot(ctx, p, o); err != nil {
		return err
	}
	if err := l.settleTargets(ctx, p); err != nil {
		return err
	}
	if err := p.checkMemory(); err != nil {
		return err
	}
	return p.fitMany(o.Exact)
}

// settleJobs resolves each workload at each level, with the level's limits as
// they are on this machine.
func (p *Plan) settleJobs() error {
	allowed, err := sys.AllowedCPUs()
	if err != nil {
		return err
	}
	return p.settleLevels(allowed)
}

func (p *Plan) settleLevels(allowed []int) error {
	st := p.Manifest.Study
	if err := knownParams(st); err != nil {
		return &InputError{fmt.Errorf("study %s: %w", st.ID, err)}
	}
	p.jobs, p.cpusets = map[jobKey]workload.Job{}, map[string]string{}
	p.Manifest.Metrics, p.Manifest.CPUs = map[string][]sample.Metric{}, map[string]hostinfo.CPUs{}
	levels := st.Limits
	if len(levels) == 0 {
		levels = []study.Limits{{}}
	}
	for i, l := range levels {
		settled, usable, err := settleLevel(l, allowed)
		if err != nil {
			where := fmt.Sprintf("limits[%d]", i)
			if l.Name != "" {
				where += " (" + l.Name + ")"
			}
			return &InputError{fmt.Errorf("study %s: %s: %w", st.ID, where, err)}
		}
		p.cpusets[l.CPUSet] = settled.CPUSet
		if l.CPUs == 0 {
			p.Manifest.CPUs[l.Name] = hostinfo.CPUsOf(usable)
		}
		for _, w := range st.Workloads {
			job, err := levelJob(st, w, l, len(usable))
			if err != nil {
				return &InputError{fmt.Errorf("workload %s: %w", w.Name, err)}
			}
			p.jobs[jobKey{w.Name, l.Name}] = job
			metrics := shown(job.Metrics, len(job.Peer) > 0)
			if job.Hold || len(w.Concurrency)+len(st.Concurrency) > 0 {
				metrics = manyMetrics(metrics, job.Hold)
			}
			p.Manifest.Metrics[w.Name] = firstShown(metrics, w.Metrics)
		}
	}
	if st.DistinctLimits {
		p.Manifest.Study.Limits = p.distinctLevels(allowed)
	}
	return nil
}

// shown are the metrics of a report: a workload's own and the general ones, and
// of the probes' those that say who of an instance used what, or of two ends. Moments on a clock
// are data for the analysis, and so is what probes read of the machine's noise:
// neither is a cost.
func shown(own []sample.Metric, ends bool) []sample.Metric {
	roles := []string{sample.PayloadCPU, sample.RuntimeCPU, sample.ClientCPU, sample.DaemonCPU, sample.PayloadPeak, sample.RuntimePeak}
	moments := []string{sample.UnixStart, sample.UnixEnd, sample.UnixTimed}
	all := slices.DeleteFunc(slices.Clone(own), func(m sample.Metric) bool { return slices.Contains(moments, m.Name) })
	if ends {
		roles = append(roles, sample.PeerCPU, sample.RelayCPU, sample.ClientNeighbours, sample.ServerNeighbours)
	}
	for _, m := range probe.Metrics() {
		if slices.Contains(roles, m.Name) {
			all = append(all, m)
		}
	}
	return all
}

// firstShown puts the metrics that the study names first.
func firstShown(all []sample.Metric, names []string) []sample.Metric {
	ordered := slices.Clone(all)
	slices.SortStableFunc(ordered, func(a, b sample.Metric) int {
		return rank(names, a.Name) - rank(names, b.Name)
	})
	return ordered
}

func rank(names []string, name string) int {
	if i := slices.Index(names, name); i >= 0 {
		return i
	}
	return len(names)
}

// promise says how many blocks a verdict takes, where these do not suffice.
func (p *Plan) promise() {
	groups := p.compared()
	if len(groups) == 0 {
		return
	}
	m := slices.Max(slices.Collect(maps.Values(groups)))
	if err := analysis.CheckPlan(p.Manifest.Study.Blocks, p.Manifest.Study.Alpha, m); err != nil {
		p.Notes = append(p.Notes, err.Error())
	}
}

// compared is among how many cells each group's verdicts are judged.
func (p *Plan) compared() map[string]int {
	groups := map[string]int{}
	for _, c := range p.Manifest.Cells {
		if !c.Control {
			groups[c.Group]++
		}
	}
	for group, n := range groups { // interventions are judged together, whatever groups their arms are in
		groups[group] = max(n, len(p.Manifest.Study.Interventions))
	}
	return groups
}
