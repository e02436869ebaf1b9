package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"time"

	"github.com/tarelab/tare/helpers"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/netpath"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/probe"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/schedule"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/trial"
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

	trials  []schedule.Trial         // of the whole run; those that are done are skipped
	turns   map[string]time.Duration // what one took in the last block, by cell
	drivers map[string]driver.Driver
	jobs    map[jobKey]workload.Job
	opens   map[jobKey][]string    // files that a job's command looks up when it starts
	loads   map[string]loadJob     // what runs next to the instances, by the level's name
	cpusets map[string]string      // as the study asks for them -> as they are on this machine
	root    image.Root             // of the levels that name no image
	images  map[string]image.Root  // of the others, by the level's name
	users   map[jobKey]driver.User // of the images' own commands
	// prepareGroup is the cgroup that prepare commands are born in; "" where this user
	// can make none.
	prepareGroup string
}

// jobKey is what a job depends on: a workload of the study and the level's name.
type jobKey struct{ workload, environment string }

// Primary is the metric that a cell's workload is judged by.
func (p *Plan) Primary(c study.Cell) sample.Metric { return p.Manifest.Metrics[c.Workload][0] }

// Plan checks a study against this machine and makes its run. Nothing has been
// measured when it returns, except the pilot that tells how small an effect the
// blocks can show.
func (l *Lab) Plan(ctx context.Context, st study.Study, o Options) (*Plan, error) {
	began := trial.Now()
	st = st.WithDefaults()
	st.Workloads, st.Variants = st.Measured(), nil // what is recorded is what is measured
	st = st.WithoutIdle()
	st, err := st.OnKernels().Renamed(l.withProgram)
	if err != nil {
		return nil, &InputError{err}
	}
	l.name(ctx, named(st))
	if err := st.Validate(l.known()); err != nil {
		return nil, &InputError{err}
	}
	st = st.OnPaths()
	st, skipped, notes, err := l.checkStudy(ctx, st, o.Rootfs != "" || o.Image != "")
	if err != nil {
		return nil, err
	}
	compiler, err := helpers.Compiler()
	if err != nil {
		return nil, err
	}
	flags, err := helpers.Flags()
	if err != nil {
		return nil, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("current directory: %w", err)
	}
	p := &Plan{Notes: slices.Concat(l.notes, notes), Manifest: store.Manifest{
		Tool: l.config.Version, Compiler: compiler, CompilerFlags: flags, Command: l.command(), Created: time.Now().UTC(),
		Study: st, Seed: store.NewSeed(), Guest: &l.config.Guest, Dir: dir, LeftOut: skipped,
	}}
	if o.Seed != nil {
		p.Manifest.Seed = *o.Seed
	}
	if err := l.resolve(ctx, p, o); err != nil {
		return nil, err
	}
	if err := p.settleSets(); err != nil {
		return nil, err
	}
	left, err := l.checkCells(ctx, p, o.Exact)
	if err != nil {
		return nil, err
	}
	p.settlePaths(o)
	m := &p.Manifest
	m.Cells = left.Cells
	maps.Copy(m.LeftOut, left.Skipped)
	maps.Copy(m.LeftOut, skipped)
	if slices.ContainsFunc(m.Cells, p.many) {
		if m.MissingCounters, err = (probe.Many{Uncounted: p.uncounted()}).Missing(); err != nil {
			return nil, err
		}
	}
	p.trials = TrialsOf(*m)
	m.Trials = len(p.trials)
	if err := l.pilot(ctx, p); err != nil {
		return nil, err
	}
	p.notePreparation(trial.Now().Sub(began))
	if p.Run, err = store.Create(l.config.StateDir, *m); err != nil {
		return nil, err
	}
	if p.Manifest, err = p.Run.Measured(); err != nil {
		return nil, errors.Join(err, p.Run.Close())
	}
	return p, nil
}

// named are the targets that a study names.
func named(st study.Study) []string {
	all := slices.Concat([]string{st.Control}, st.Targets, st.Optional, st.Beside)
	for _, l := range st.Limits {
		if cell, err := l.Name(); err == nil {
			all = append(all, cell.Target)
		}
	}
	return all
}

// TrialsOf is the order of a run's trials. Runs from before there was a choice
// have cold trials.
func TrialsOf(m store.Manifest) []schedule.Trial {
	first := schedule.Cold
	if m.Study.Cold != nil && !*m.Study.Cold {
		first = 0
	}
	return schedule.PlanFrom(first, m.Cells, m.Study.Blocks, m.Seed)
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

// resolve fills in what the study means on this machine: targets, jobs, image,
// cells.
func (l *Lab) resolve(ctx context.Context, p *Plan, o Options) error {
	p.Manifest.Host, p.Manifest.Peer = hostinfo.Gather(), l.otherMachine()
	if l.groups.trees.Usable() {
		p.prepareGroup = path.Join(l.groups.session, "prepare")
	}
	if err := p.settleJobs(); err != nil {
		return err
	}
	if err := l.settleRoot(ctx, p, o); err != nil {
		return err
	}
	return l.settleTargets(ctx, p)
}
