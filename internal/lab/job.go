package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/netpath"
	"github.com/tarelab/tare/internal/preflight"
	"github.com/tarelab/tare/internal/probe"
	"github.com/tarelab/tare/internal/probe/ebpf"
	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/schedule"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/trial"
	"github.com/tarelab/tare/internal/workload"
)

// jobOf is what a cell runs.
func (p *Plan) jobOf(c study.Cell) workload.Job { return p.jobs[jobKey{c.Workload, c.Environment}] }

// job makes one trial's job.
func (l *Lab) job(p *Plan, t schedule.Trial) trial.Job {
	c := p.Manifest.Cells[t.Cell]
	root := p.rootAt(c.Environment)
	w, j := p.workloadOf(c), p.jobOf(c)
	job := trial.Job{
		Seq: t.Seq, Block: t.Block, Cell: c.ID,
		Driver: p.drivers[c.Target],
		Spec: driver.Spec{
			Rootfs: root.Rootfs,
			Image:  root.Layout,
			Mounts: root.Mounts,
			Args:   j.Args,
			Opens:  p.opens[jobKey{c.Workload, c.Environment}],
			Env:    environment(j.Env, w.Env),
			Limits: limitsOf(c.Limits),
			Disk:   j.Disk, Direct: j.Direct,
			Peer: j.Peer, Network: preflight.NetworkOf(c.Limits.Network),
			Devices: preflight.DevicesOf(c.Limits.Guest),
			Modules: j.Modules,
			Beside:  j.Beside, Tool: l.config.Tool,
		},
		Copies:      c.Copies,
		Concurrency: c.Concurrency,
		Prepare:     hostCommand(w.Prepare, p.Manifest.Dir, p.prepareGroup, p.Manifest.Study.Timeout),
		Parse:       j.Parse,
		Timeout:     p.Manifest.Study.Timeout,
		Until:       driver.Phase(p.Manifest.Targets[c.Target].Notes[driver.NoteBootsTo]),
		Shared:      startBarrier(j, c.Copies),
		Together:    j.Together,
		Load:        p.load(c),
		Probes:      p.probes(c, t.Seq),
	}
	// A command is weighed by itself: the mark's own execution would be part of its
	// time. Where many are started their times to ready are the point.
	job.Unmarked = j.Own || j.Beside || j.Kind == workload.KindCommand && !p.many(c)
	if on, ok := driver.As[driver.Controller](job.Driver); ok && j.Lifecycle != nil {
		l := j.Lifecycle
		job.Lifecycle = &trial.Lifecycle{Control: on, Verbs: l.Verbs, Repeat: l.Repeat, Quiet: l.Quiet, Exec: l.Exec, Acted: l.Acted, Alive: l.Alive()}
	}
	if j.User != (driver.User{}) {
		job.Spec.User = j.User
	}
	if _, placed := driver.As[*netpath.Driver](job.Driver); len(j.Peer) > 0 && !placed {
		job.Driver = netpath.New(l.place, job.Driver, l.drivers[0], netpath.Loopback) // both ends in one instance
	}
	if c.Limits.PageCache == study.PageCacheCold {
		job.Prepare = inOrder(job.Prepare, func(context.Context) error {
			return root.Evict(append([]string{driver.Mark}, job.Spec.Opens...))
		})
	}
	if j.Own {
		job.Spec.Cwd, job.Spec.User = root.Config.WorkingDir, p.users[jobKey{c.Workload, c.Environment}]
	}
	// An emulated CPU has no clock of its own, and every reading takes its time.
	if workload.UnixComputes(j.Kind) && c.Copies <= 1 && p.Manifest.Host.Emulated == "" {
		job.Probes = append(job.Probes, probe.Clock{})
	}
	if j.Beside && p.Run != nil { // its series are more than its values
		job.Parse = func(stdout []byte) ([]sample.Value, error) {
			return kept(p.Run, t.Seq, stdout, j.Parse)
		}
	}
	if p.many(c) {
		job.Hold, job.Together = l.holding(j, p.merges(c)), manyTogether
		if j.Hold {
			job.Together = heldTogether
		}
		job.Probes = append(job.Probes, probe.Many{Uncounted: p.uncounted()})
	}
	return job
}

// probes are those that watch one trial of a cell. What a pilot shows is kept
// nowhere: it is no trial of the run.
func (p *Plan) probes(c study.Cell, seq int) []trial.Probe {
	keep := func(found profile.Profile) error { return p.Run.KeepProfile(seq, found) }
	if record := recorders[c.Probe]; record != nil && p.Run != nil {
		return []trial.Probe{ebpf.Probe{Record: record, Root: p.rootAt(c.Environment).Rootfs, Keep: keep}}
	}
	return nil
}

// inOrder does both, the first of which may be nil.
func inOrder(first, then func(context.Context) error) func(context.Context) error {
	if first == nil {
		return then
	}
	return func(ctx context.Context) error {
		if err := first(ctx); err != nil {
			return err
		}
		return then(ctx)
	}
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

// hostCommand runs a study's prepare command on the host, in dir ("" for the current
// one) and born in a group of the session ("" for none), within the trial's time; nil for
// none. What it started ends with it, in time or out of time; after kill -9 a sweep finds
// it in the group.
func hostCommand(argv []string, dir, group string, timeout time.Duration) func(context.Context) error {
	if len(argv) == 0 {
		return nil
	}
	return func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.WaitDelay = time.Second
		if group != "" {
			remove, failed := sys.BornIn(cmd, group)
			if failed != nil {
				return driver.Labf("group of a prepare command: %w", failed)
			}
			defer func() { err = errors.Join(err, remove()) }()
		}
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
