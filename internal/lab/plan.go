package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/probe"
	"github.com/tarelab/tare/internal/probe/ebpf"
	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/schedule"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/target"
	"github.com/tarelab/tare/internal/target/pair"
	"github.com/tarelab/tare/internal/trial"
	"github.com/tarelab/tare/internal/workload"
)

// Options of a plan, beside the study.
type Options struct {
	Seed   *uint64 // of the order; nil: drawn
	Rootfs string  // a directory to run in, instead of the workbench
	Image  string  // an image to run in: OCI layout, or a tar
}

// Plan is a run that is ready to be measured, or to go on.
type Plan struct {
	Run      *store.Run
	Manifest store.Manifest
	Notes    []string      // what the user should know before it starts
	Estimate time.Duration // of what is still to be done

	trials  []schedule.Trial // of the whole run; those that are done are skipped
	drivers map[string]target.Driver
	jobs    map[jobKey]workload.Job
	opens   map[jobKey][]string // files that a job's command looks up when it starts
	cpusets map[string]string   // as the study asks for them -> as they are on this machine
	root    image.Root
	user    target.User // of the image's own command
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
	if err := canWatch(st); err != nil {
		return nil, err
	}
	p := &Plan{Notes: l.notes, Manifest: store.Manifest{
		Tool: l.config.Version, Command: l.config.Command, Created: time.Now().UTC(),
		Study: st, Seed: rand.Uint64(), Host: hostinfo.Gather(),
	}}
	if o.Seed != nil {
		p.Manifest.Seed = *o.Seed
	}
	if err := l.resolve(ctx, p, o); err != nil {
		return nil, err
	}
	m := &p.Manifest
	if slices.ContainsFunc(m.Cells, p.many) {
		var err error
		if m.MissingCounters, err = probe.MissingCounters(); err != nil {
			return nil, err
		}
	}
	p.trials = trialsOf(*m)
	m.Trials = len(p.trials)
	p.promise()
	if err := l.pilot(ctx, p); err != nil {
		return nil, err
	}
	var err error
	if p.Run, err = store.Create(l.config.StateDir, *m); err != nil {
		return nil, err
	}
	p.Manifest = p.Run.Manifest()
	return p, nil
}

// canLimit refuses limits where this user can make no cgroups to set them in.
func (l *Lab) canLimit(st study.Study) error {
	for _, level := range st.Limits {
		limited := level.CPUs > 0 || level.CPUSet != "" || level.Memory > 0 || level.Pids > 0
		if limited && !l.groups.trees.Usable() {
			return &target.CannotError{Target: "a target with limits", Lacks: "cgroups that this user may make", Remedy: "run as root, or in a delegated cgroup v2"}
		}
	}
	return nil
}

// canSet refuses levels that change the machine where the user has not allowed it.
func (l *Lab) canSet(st study.Study) error {
	for _, level := range st.Limits {
		if n := level.Network; n != nil && n.Limit > 0 && !l.config.AllowSysctl {
			return &InputError{fmt.Errorf("the level %s sets the limit of neighbours of the whole machine (net.ipv4.neigh.default.gc_thresh*) to %d while it is measured: allow it with --allow-sysctl, or choose others with --environments", level.Name, n.Limit)}
		}
	}
	return nil
}

// Resume makes the plan of a run that was broken off. The image and the targets
// must be what they were.
func (l *Lab) Resume(ctx context.Context, ref *store.Run) (*Plan, error) {
	m := ref.Manifest()
	if err := errors.Join(l.canSet(m.Study), l.canAddress(m.Study)); err != nil {
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

// sameGround refuses to go on with a run on another ground than it began on.
func sameGround(before, now store.Manifest) error {
	if before.Image != now.Image {
		return &InputError{fmt.Errorf("the image is %s now and was %s: the programs on this machine have changed, so the run cannot go on; start it anew", now.Image, before.Image)}
	}
	if before.Host.Kernel != now.Host.Kernel {
		return &InputError{fmt.Errorf("the kernel is %s now and was %s: the run cannot go on; start it anew", now.Host.Kernel, before.Host.Kernel)}
	}
	for name, facts := range before.Targets {
		if got, ok := now.Targets[name]; !ok || got.Digest != facts.Digest || got.Notes["accel"] != facts.Notes["accel"] || got.Notes["kernel-digest"] != facts.Notes["kernel-digest"] {
			return &InputError{fmt.Errorf("target %s is not what it was when the run began (%s): start it anew", name, facts.Version)}
		}
	}
	return nil
}

func (l *Lab) known() study.Known {
	known := study.Known{}
	for _, d := range l.drivers {
		known.Targets = append(known.Targets, d.Name())
	}
	for _, p := range pair.Paths() {
		known.Paths = append(known.Paths, string(p))
	}
	for _, w := range workload.All() {
		known.Kinds = append(known.Kinds, w.Kind())
	}
	return known
}

// resolve fills in what the study means on this machine: targets, jobs, image,
// cells.
func (l *Lab) resolve(ctx context.Context, p *Plan, o Options) error {
	p.Manifest.Host = hostinfo.Gather()
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
	return p.checkMany()
}

// settleJobs resolves each workload at each level, with the level's limits as
// they are on this machine.
func (p *Plan) settleJobs() error {
	allowed, err := sys.AllowedCPUs()
	if err != nil {
		return err
	}
	st := p.Manifest.Study
	if err := knownParams(st); err != nil {
		return &InputError{fmt.Errorf("study %s: %w", st.ID, err)}
	}
	p.jobs, p.cpusets = map[jobKey]workload.Job{}, map[string]string{}
	p.Manifest.Metrics = map[string][]sample.Metric{}
	levels := st.Limits
	if len(levels) == 0 {
		levels = []study.Limits{{}}
	}
	for i, l := range levels {
		settled, cpus, err := settleLevel(l, allowed)
		if err != nil {
			return &InputError{fmt.Errorf("study %s: limits[%d]: %w", st.ID, i, err)}
		}
		p.cpusets[l.CPUSet] = settled.CPUSet
		for _, w := range st.Workloads {
			job, err := levelJob(st, w, l, cpus)
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
	return nil
}

// shown are the metrics of a report: a workload's own and the general ones, and
// of the probes' those that say who of an instance used what, or of two ends. Moments on a clock
// are data for the analysis, and so is what probes read of the machine's noise:
// neither is a cost.
func shown(own []sample.Metric, ends bool) []sample.Metric {
	roles := []string{probe.PayloadCPU, probe.RuntimeCPU, probe.ClientCPU, probe.DaemonCPU, probe.PayloadPeak, probe.RuntimePeak}
	moments := []string{workload.UnixStart, workload.UnixEnd}
	all := slices.DeleteFunc(slices.Clone(own), func(m sample.Metric) bool { return slices.Contains(moments, m.Name) })
	if ends {
		roles = append(roles, probe.PeerCPU, probe.RelayCPU, probe.ClientNeighbours, probe.ServerNeighbours)
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

// settleRoot finds the one root file system that all cells run in: the user's
// own, or the workbench with the study's commands in it.
func (l *Lab) settleRoot(ctx context.Context, p *Plan, o Options) error {
	root, err := l.openRoot(ctx, p, o)
	if err != nil {
		return &InputError{err}
	}
	l.roots = append(l.roots, root)
	p.root, p.Notes = root, append(p.Notes, root.Notes...)
	p.opens = map[jobKey][]string{}
	p.Manifest.Image, p.Manifest.Rootfs, p.Manifest.ImageSource = root.Digest, o.Rootfs, o.Image
	for key, job := range p.jobs {
		name := key.workload
		if missing := root.Lacks(job.Needs); len(missing) > 0 && o == (Options{Seed: o.Seed}) {
			return &InputError{fmt.Errorf("workload %s: %s is not installed: apt-get install %s", name, missing[0].Name, missing[0].Package)}
		}
		if job.Own {
			if job, err = ownCommand(job, root); err == nil {
				p.user.UID, p.user.GID, err = root.User()
			}
			if err != nil {
				return &InputError{fmt.Errorf("workload %s: %w", name, err)}
			}
			p.jobs[key] = job
		}
		if len(job.Args) == 0 {
			continue
		}
		path := ownPath(job.Env)
		if job.Args[0], err = root.LookPath(job.Args[0], path); err != nil {
			return &InputError{fmt.Errorf("workload %s: %w", name, err)}
		}
		if p.opens[key], err = root.Opens(job.Args[0], path); err != nil {
			return fmt.Errorf("root file system: %w", err)
		}
	}
	return nil
}

func (l *Lab) openRoot(ctx context.Context, p *Plan, o Options) (image.Root, error) {
	switch {
	case o.Rootfs != "":
		scratch := filepath.Join(l.session.dir, "rootfs")
		if err := os.MkdirAll(scratch, 0o755); err != nil {
			return image.Root{}, fmt.Errorf("session: %w", err)
		}
		return l.images.Directory(ctx, o.Rootfs, l.bench, scratch)
	case o.Image != "":
		return l.images.Import(ctx, o.Image, l.bench)
	}
	return l.images.ForCommands(ctx, l.bench, p.commands())
}

// commands are the programs that the study's own commands name.
func (p *Plan) commands() []string {
	var names []string
	for _, job := range p.jobs {
		if job.Kind == workload.KindCommand {
			names = append(names, job.Args[0])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// settleTargets proves the study's targets and expands its cells over those
// that work.
func (l *Lab) settleTargets(ctx context.Context, p *Plan) error {
	m := &p.Manifest
	m.Targets, m.LeftOut, p.drivers = map[string]target.Facts{}, map[string]string{}, map[string]target.Driver{}
	wanted := l.wanted(m.Study)
	if err := l.makeParts(ctx, wanted); err != nil {
		return err
	}
	var working []string
	broken := map[string]error{}
	for i, f := range l.Check(ctx, wanted, false) {
		if f.Err != nil {
			broken[f.Target] = f.Err
			continue
		}
		working = append(working, f.Target)
		m.Targets[f.Target] = f.Facts
		p.drivers[f.Target] = wanted[i]
	}
	for _, d := range wanted {
		if on, placed := d.(*pair.Driver); placed {
			if err := on.Rest(); err != nil {
				return err
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for name, err := range broken {
		m.LeftOut[name] = err.Error()
	}
	cells, left := m.Study.Expand(working)
	for _, out := range left {
		if !out.Optional {
			return fmt.Errorf("target %s: %w", out.Target, broken[out.Target])
		}
	}
	for i := range cells {
		cells[i].Limits.CPUSet = p.cpusets[cells[i].Limits.CPUSet]
	}
	var err error
	if m.Cells, err = p.fitting(cells); err != nil {
		return err
	}
	return errors.Join(p.needPaths(), p.needMachines())
}

// makeParts has targets made whose making takes minutes. What one cannot have,
// its check says.
func (l *Lab) makeParts(ctx context.Context, wanted []target.Driver) error {
	for _, d := range wanted {
		maker, ok := d.(target.Maker)
		if !ok {
			continue
		}
		err := maker.Make(ctx, func(what string) { l.config.tell(d.Name() + ": " + what) })
		var cannot *target.CannotError
		if err != nil && !errors.As(err, &cannot) {
			return fmt.Errorf("target %s: %w", d.Name(), err)
		}
	}
	return nil
}

// wanted are the drivers that a study asks for, those on a path made for it.
func (l *Lab) wanted(st study.Study) []target.Driver {
	wanted := slices.DeleteFunc(slices.Clone(l.drivers), func(d target.Driver) bool { return !st.Wants(d.Name()) })
	host := l.drivers[0] // nearest to the host
	for _, d := range l.drivers {
		for _, on := range pair.All(l.Target, d, host, rangeOf(st)) {
			if st.Wants(on.Name()) {
				wanted = append(wanted, on)
			}
		}
	}
	return wanted
}

// needPaths refuses a workload of two ends in a target that has one.
func (p *Plan) needPaths() error {
	for _, c := range p.Manifest.Cells {
		if len(p.jobOf(c).Peer) > 0 && !strings.Contains(c.Target, study.PathSign) {
			return &InputError{fmt.Errorf("workload %s talks to another end, and the target %s has one: name its path, as %s%s%s, or give the study paths",
				c.Workload, c.Target, c.Target, study.PathSign, pair.Loopback)}
		}
	}
	return nil
}

// needMachines refuses a workload that changes the whole machine where that is
// this one.
func (p *Plan) needMachines() error {
	for _, c := range p.Manifest.Cells {
		if p.jobOf(c).OwnMachine && p.Manifest.Targets[c.Target].Notes["accel"] == "" {
			return &InputError{fmt.Errorf("workload %s changes a setting of the whole machine, and the target %s shares this one: take a virtual machine, as qemu/microvm", c.Workload, c.Target)}
		}
	}
	return nil
}

// promise says how many blocks a verdict takes, where these do not suffice.
func (p *Plan) promise() {
	groups := map[string]int{}
	for _, c := range p.Manifest.Cells {
		if !c.Control {
			groups[c.Group]++
		}
	}
	if len(groups) == 0 {
		return
	}
	m := slices.Max(slices.Collect(maps.Values(groups)))
	if err := analysis.CheckPlan(p.Manifest.Study.Blocks, p.Manifest.Study.Alpha, m); err != nil {
		p.Notes = append(p.Notes, err.Error())
	}
}

// jobOf is what a cell runs.
func (p *Plan) jobOf(c study.Cell) workload.Job { return p.jobs[jobKey{c.Workload, c.Environment}] }

// job makes one trial's job.
func (l *Lab) job(p *Plan, t schedule.Trial) trial.Job {
	c := p.Manifest.Cells[t.Cell]
	i := slices.IndexFunc(p.Manifest.Study.Workloads, func(w study.Workload) bool { return w.Name == c.Workload })
	w, j := p.Manifest.Study.Workloads[i], p.jobOf(c)
	job := trial.Job{
		Seq: t.Seq, Block: t.Block, Cell: c.ID,
		Driver: p.drivers[c.Target],
		Spec: target.Spec{
			Rootfs: p.root.Rootfs,
			Image:  p.root.Layout,
			Mounts: p.root.Mounts,
			Args:   j.Args,
			Opens:  p.opens[jobKey{c.Workload, c.Environment}],
			Env:    environment(j.Env, w.Env),
			Limits: limitsOf(c.Limits),
			Disk:   j.Disk,
			Peer:   j.Peer, Network: networkOf(c.Limits.Network),
		},
		Copies:      c.Copies,
		Concurrency: c.Concurrency,
		Prepare:     hostCommand(w.Prepare, p.Manifest.Study.Timeout),
		Parse:       j.Parse,
		Timeout:     p.Manifest.Study.Timeout,
		Shared:      startBarrier(j, c.Copies),
		Together:    j.Together,
		Probes:      p.probes(c, t.Seq),
	}
	// A command is weighed by itself: the mark's own execution would be part of its
	// time. Where many are started their times to ready are the point.
	job.Unmarked = j.Own || j.Kind == workload.KindCommand && !p.many(c)
	if j.Own {
		job.Spec.Cwd, job.Spec.User = p.root.Config.WorkingDir, p.user
	}
	if p.many(c) {
		job.Hold, job.Together = l.holding(j), manyTogether
		job.Probes = append(job.Probes, probe.Many{})
	}
	return job
}

// probes are those that watch one trial of a cell. What a pilot shows is kept
// nowhere: it is no trial of the run.
func (p *Plan) probes(c study.Cell, seq int) []trial.Probe {
	keep := func(found profile.Profile) error { return p.Run.KeepProfile(seq, found) }
	if record := recorders[c.Probe]; record != nil && p.Run != nil {
		return []trial.Probe{ebpf.Probe{Record: record, Root: p.root.Rootfs, Keep: keep}}
	}
	return nil
}

// searchPath is the payload's PATH.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// baseEnvironment is what every payload sees, and all that it sees beside the
// study's own: nothing is inherited from tare's.
var baseEnvironment = []string{
	"PATH=" + searchPath, "HOME=/root", "LANG=C.UTF-8", "TERM=dumb",
}

func environment(job []string, own map[string]string) []string {
	env := map[string]string{}
	for _, pair := range append(slices.Clone(baseEnvironment), job...) {
		k, v, _ := strings.Cut(pair, "=")
		env[k] = v
	}
	maps.Copy(env, own)
	pairs := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		pairs = append(pairs, k+"="+env[k])
	}
	return pairs
}

// hostCommand runs a study's prepare command on the host, within the trial's
// time; nil for none.
func hostCommand(argv []string, timeout time.Duration) func(context.Context) error {
	if len(argv) == 0 {
		return nil
	}
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		// What it started ends with it, in time or out of time: its group is killed.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.WaitDelay = time.Second
		out, err := cmd.CombinedOutput()
		if cmd.Process != nil {
			if killed := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); killed != nil && !errors.Is(killed, syscall.ESRCH) {
				err = errors.Join(err, killed)
			}
		}
		if errors.Is(err, exec.ErrWaitDelay) {
			err = nil // it ended well; what it left running held its output open, and is killed
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("it was killed: %w", context.Cause(ctx))
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
			if said := strings.TrimSpace(string(out[max(0, len(out)-500):])); said != "" {
				err = fmt.Errorf("%w: %s", err, said)
			}
			return err
		}
		return nil
	}
}
