// Package boots boots machines of the user's own several times and keeps the
// milestones of their consoles as a run.
package boots

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/probe"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/trial"
	"github.com/tarelab/tare/internal/vmm"
)

// Bench is what boots need of a laboratory; a *lab.Lab is one.
type Bench interface {
	Config() lab.Config
	Place() driver.Lab
	Drivers(ctx context.Context, names ...string) ([]driver.Driver, error)
	Check(ctx context.Context, drivers []driver.Driver, fresh bool) []lab.Finding
}

// Options are machines of the user's own, booted as they are.
type Options struct {
	VM      string   // "qemu/q35"
	Kernels []Kernel // at least one; the others are compared with the first
	Rootfs  string   // raw image of the root disk, whose writes are kept apart; "" for none
	Append  string   // kernel parameters beside the console's
	Memory  int64    // bytes
	CPUs    int
	Boots   int            // of each kernel
	Until   *regexp.Regexp // the console's line that ends a boot; the machine's own end does so too
	Timeout time.Duration  // of one boot
}

// Kernel is a kernel with its initramfs.
type Kernel struct {
	Name   string // unique
	Kernel string // path
	Initrd string // path; "" for none
}

// Run boots each kernel so many times, in blocks of random order, and keeps the
// milestones and consoles as a run, whose report compares the kernels with the first.
// A boot that fails is a record, as a trial's failure is. observe is told of each boot
// before it begins and when its record is kept. The run is nil where none came to be;
// with an error, ctx's among them, it holds the boots that had ended before.
func Run(ctx context.Context, l Bench, o Options, observe func(lab.Event)) (*store.Run, error) {
	configs, m, err := plan(ctx, l, o)
	if err != nil {
		return nil, err
	}
	run, err := store.Create(l.Config().StateDir, m)
	if err != nil {
		return nil, err
	}
	return run, errors.Join(boots(ctx, l, o, configs, run, observe), run.Close())
}

func boots(ctx context.Context, l Bench, o Options, configs []vmm.Config, run *store.Run, observe func(lab.Event)) error {
	m := run.Manifest()
	trials := lab.TrialsOf(m)
	judge := lab.Busy(m.Host.CPUs)
	for done, t := range trials {
		e := lab.Event{Trial: t, Cell: m.Cells[t.Cell], Done: done, Total: len(trials), Blocks: o.Boots}
		observe(e)
		e.Record = &sample.Record{Seq: t.Seq, Block: t.Block, Cell: e.Cell.ID, At: time.Now().UnixNano()}
		var b *ownBoot
		err := vmm.Again(l.Config().Say, func() (err error) {
			b, err = bootOnce(ctx, l, o, configs[t.Cell])
			return err
		})
		switch {
		case err == nil:
			e.Record.Values, e.Record.Warnings = b.values, judge(b.values)
		case ctx.Err() != nil:
			return errors.Join(ctx.Err(), err)
		default:
			e.Record.Failure = trial.Fail("wait", err)
		}
		if console := b.console.Kept(); len(console) > 0 {
			if err := run.KeepLog(t.Seq, console); err != nil {
				return err
			}
		}
		if err := run.Append(*e.Record); err != nil {
			return err
		}
		e.Done++
		observe(e)
	}
	return nil
}

// plan is a machine for each kernel, and the run that their boots make.
func plan(ctx context.Context, l Bench, o Options) ([]vmm.Config, store.Manifest, error) {
	off := false
	st := study.Study{ID: lab.BootStudy, Title: "Boots of your own machines", Question: "When does each kernel reach its milestones?",
		Control: o.Kernels[0].Name, AA: &off, Cold: &off, Blocks: o.Boots, Timeout: o.Timeout, Workloads: []study.Workload{{Kind: bootWorkload}}}
	m := store.Manifest{Tool: l.Config().Version, Command: l.Config().Command, Created: time.Now().UTC(), Seed: rand.Uint64(), Host: hostinfo.Gather(),
		Rootfs: o.Rootfs, Trials: o.Boots * len(o.Kernels), Metrics: map[string][]sample.Metric{bootWorkload: bootMetrics()}, Targets: map[string]driver.Facts{}}
	kernels, err := inspected(o.Kernels)
	if err != nil {
		return nil, m, err
	}
	base, monitor, err := machine(ctx, l, o)
	if err != nil {
		return nil, m, err
	}
	var configs []vmm.Config
	for i, k := range o.Kernels {
		config := base
		config.Machine.Kernel, config.Machine.Initrd = kernels[i], k.Initrd
		if err = config.VMM.Takes(config.Machine); err == nil {
			m.Targets[k.Name], err = bootFacts(monitor, k, kernels[i])
		}
		if err != nil {
			return nil, m, &lab.InputError{Err: err}
		}
		configs = append(configs, config)
		st.Targets = append(st.Targets, k.Name)
		m.Cells = append(m.Cells, study.Cell{ID: k.Name + "/" + bootWorkload, Target: k.Name, Workload: bootWorkload, Group: bootWorkload, Copies: 1, Control: i == 0})
	}
	m.Study = st.WithDefaults()
	return configs, m, nil
}

// inspected are the kernels by their files.
func inspected(all []Kernel) ([]vmm.Kernel, error) {
	kernels := make([]vmm.Kernel, len(all))
	for i, k := range all {
		var err error
		if kernels[i], err = vmm.Inspect(k.Kernel); err == nil {
			err = kernels[i].Fits()
		}
		if err != nil {
			return nil, &lab.InputError{Err: fmt.Errorf("--kernel: %w", err)}
		}
	}
	return kernels, nil
}

// bootWorkload is the only workload of Run.
const bootWorkload = "boot"

// bootMetrics are those of the report's price list; the milestones have a section of
// their own.
func bootMetrics() []sample.Metric {
	return []sample.Metric{
		{Name: sample.Ready, Unit: sample.Seconds, Better: sample.Lower, Help: "from the monitor's exec to the line that --until names, else to the machine's end"},
		{Name: sample.CPU, Unit: sample.Seconds, Better: sample.Lower, Help: "the monitor's CPU time until then"},
	}
}

// bootFacts are the monitor's and what a kernel is made of, as a container host's are.
func bootFacts(monitor driver.Facts, k Kernel, kernel vmm.Kernel) (driver.Facts, error) {
	notes := map[string]string{}
	maps.Copy(notes, monitor.Notes)
	notes["arm"], notes["kernel"], notes[driver.NoteGuestKernel] = k.Kernel, fmt.Sprintf("%s (%s)", kernel.Version, kernel.Format), kernel.Digest
	if k.Initrd != "" {
		notes["arm"] += " with " + k.Initrd
	}
	notes["initrd-bytes"] = "0"
	for note, file := range map[string]string{"kernel-bytes": k.Kernel, "initrd-bytes": k.Initrd} {
		if file == "" {
			continue
		}
		info, err := os.Stat(file)
		if err != nil {
			return monitor, err
		}
		notes[note] = fmt.Sprint(info.Size())
	}
	monitor.Notes = notes
	return monitor, nil
}

// machine is what all boots have in common. Whether the monitor works and how
// it runs guests its own check says.
func machine(ctx context.Context, l Bench, o Options) (vmm.Config, driver.Facts, error) {
	v, ok := vmm.ByName(o.VM)
	all, err := l.Drivers(ctx)
	if err != nil {
		return vmm.Config{}, driver.Facts{}, err
	}
	i := slices.IndexFunc(all, func(d driver.Driver) bool { return d.Name() == o.VM })
	switch {
	case !ok || i < 0:
		return vmm.Config{}, driver.Facts{}, &lab.InputError{Err: fmt.Errorf("no virtual machine %q; tare check lists them", o.VM)}
	case v.MaxCPUs > 0 && o.CPUs > v.MaxCPUs:
		return vmm.Config{}, driver.Facts{}, &lab.InputError{Err: fmt.Errorf("%d CPUs: %s has at most %d", o.CPUs, o.VM, v.MaxCPUs)}
	}
	f := l.Check(ctx, []driver.Driver{all[i]}, false)[0]
	if f.Err != nil {
		return vmm.Config{}, f.Facts, f.Err
	}
	m := vmm.Machine{CPUs: o.CPUs, Memory: o.Memory, Accel: vmm.Accel(f.Facts.Notes[driver.NoteAccel]), Append: strings.Fields(o.Append)}
	if o.Rootfs != "" {
		m.Disks = []vmm.Disk{{Path: o.Rootfs}}
	}
	return vmm.Config{VMM: v, Path: f.Facts.Path, Machine: m, Launcher: l.Place().LaunchPath}, f.Facts, nil
}

// ownBoot is one boot of a machine of the user's own.
type ownBoot struct {
	until   *regexp.Regexp
	console trial.Console
	done    chan struct{} // closed at the line that ends the boot

	mu     sync.Mutex // guards what follows
	from   trial.Stamp
	values map[string][]float64
	over   bool // what comes now came after the boot's end
}

// mark notes a milestone, the first time.
func (b *ownBoot) mark(name string) {
	now := trial.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.values[name] == nil && !b.over {
		b.values[name] = []float64{now.Sub(b.from).Seconds()}
	}
}

// has reports whether a milestone came.
func (b *ownBoot) has(name vmm.Mark) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.values[string(name)] != nil
}

// listen has a machine tell of its marks and lines.
func (b *ownBoot) listen(config *vmm.Config) {
	milestone := vmm.Milestones(b.mark)
	var once sync.Once
	config.Mark = func(m vmm.Mark) {
		if m != vmm.MarkPoweredOff { // that is a boot's end, where no line was
			b.mark(string(m))
		}
	}
	config.Line = func(line string) {
		b.mu.Lock()
		from := b.from
		b.mu.Unlock()
		b.console.Add(line, from)
		milestone(line)
		if b.until.MatchString(line) {
			b.mark(sample.Ready)
			once.Do(func() { close(b.done) })
		}
	}
}

// bootOnce boots until the line that was asked for, or the machine's end. The boot is
// never nil: a failed one has its console.
func bootOnce(ctx context.Context, l Bench, o Options, config vmm.Config) (b *ownBoot, err error) {
	b = &ownBoot{until: o.Until, done: make(chan struct{}), values: map[string][]float64{}}
	if config.Dir, err = os.MkdirTemp(l.Place().RunDir, driver.Label+"-boot-"); err != nil {
		return b, driver.Labf("directory of the machine: %w", err)
	}
	defer func() { err = errors.Join(err, sys.RemoveTree(filepath.Clean(config.Dir))) }()
	b.listen(&config)
	config.Patience = map[vmm.Mark]time.Duration{vmm.MarkFirstByte: o.Timeout, vmm.MarkKernel: o.Timeout, vmm.MarkInit: o.Timeout}
	vm, err := vmm.New(ctx, config)
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, vm.Close()) }()
	noise, err := probe.Noise{}.Begin(ctx, nil)
	if err != nil {
		return b, driver.Labf("%w", err)
	}
	b.mu.Lock()
	b.from = trial.Now()
	b.mu.Unlock()
	if err := vm.Start(); err != nil {
		return b, err
	}
	if err := b.wait(ctx, vm, o.Timeout); err != nil {
		return b, err
	}
	seen, err := noise()
	if err != nil {
		return b, driver.Labf("%w", err)
	}
	b.finish(vm, seen)
	return b, nil
}

// wait returns at the boot's end, or says why none came.
func (b *ownBoot) wait(ctx context.Context, vm *vmm.VM, timeout time.Duration) error {
	select {
	case <-b.done:
		return nil
	case <-vm.Ended():
		b.mark(sample.Ready)
		return vm.Died()
	case err := <-vm.Failed():
		return vm.Explain(err)
	case <-time.After(timeout):
		if b.has(vmm.MarkKernel) && !b.has(vmm.MarkInit) {
			return vm.Explain(&vmm.HangError{After: vmm.MarkKernel, Awaited: vmm.MarkInit, For: timeout})
		}
		return vm.Explain(fmt.Errorf("no line that matches %q came within %v", b.until, timeout))
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finish ends the boot, and adds what the monitor used until then and what the machine
// did meanwhile.
func (b *ownBoot) finish(vm *vmm.VM, noise []sample.Value) {
	cpu, known := monitorCPU(vm)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	b.values[sample.Wall] = b.values[sample.Ready]
	if known {
		b.values[sample.CPU] = []float64{cpu}
	}
	for _, v := range noise {
		b.values[v.Metric] = []float64{v.Value}
	}
}

// monitorCPU is the CPU time in seconds that the monitor has used since its exec: of
// one that runs by its process, of one that has ended by its parent's wait.
func monitorCPU(vm *vmm.VM) (seconds float64, known bool) {
	if p, err := procfs.NewProc(vm.PID()); err == nil {
		if s, err := p.Stat(); err == nil {
			return s.CPUTime(), true
		}
	}
	select {
	case <-vm.Ended():
	case <-time.After(time.Second): // it is there, and cannot be read
	}
	if u := vm.Used(); u != nil {
		return (u.User + u.System).Seconds(), true
	}
	return 0, false
}
