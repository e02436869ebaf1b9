// Package boots boots machines of the user's own several times and keeps the
// milestones of their consoles as a run.
package boots

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/vm"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/net"
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
	GuestRoot(ctx context.Context, ref string) (string, error)
	Drivers(ctx context.Context, names ...string) ([]driver.Driver, error)
	Check(ctx context.Context, drivers []driver.Driver, fresh bool) []lab.Finding
}

// Options are machines of the user's own, booted as they are.
type Options struct {
	On      []string // virtual machines, as "qemu/q35"; at least one
	Kernels []Kernel // each on each machine; none is the kernel that guests have, and needs a Rootfs
	Rootfs  string   // a root file system as lab.GuestRoot and vm.SystemDisk take it, whose writes are kept apart; "" for none
	Append  string   // kernel parameters beside the console's; without a root= the root goes before them
	Memory  int64    // bytes
	CPUs    int
	Boots   int            // of each kernel
	Until   *regexp.Regexp // the console's line that ends a boot; the machine's own end does so too
	Timeout time.Duration  // of one boot
	Network bool           // each machine has a link to a bridge of its own, where it gets an address by DHCP; as root
}

// Kernel is a kernel with its initramfs.
type Kernel struct {
	Name   string // unique
	Kernel string // path
	Initrd string // path; "" for none
}

// Run boots each kernel on each machine so many times, in blocks of random order, and
// keeps the milestones and consoles as a run, whose report compares all with the first.
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
			e.Record.Failure.Reached = b.reached()
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

// plan is a machine for each kernel on each VMM, and the run that their boots make.
func plan(ctx context.Context, l Bench, o Options) ([]vmm.Config, store.Manifest, error) {
	off := false
	st := study.Study{ID: lab.BootStudy, Title: "Boots of your own machines", Question: "When does each machine reach its milestones?",
		AA: &off, Cold: &off, Blocks: o.Boots, Timeout: o.Timeout, Workloads: []study.Workload{{Kind: bootWorkload}}}
	m := store.Manifest{Tool: l.Config().Version, Command: l.Config().Command, Created: time.Now().UTC(), Seed: store.NewSeed(), Host: hostinfo.Gather(),
		Rootfs: o.Rootfs, Metrics: map[string][]sample.Metric{bootWorkload: bootMetrics()}, Targets: map[string]driver.Facts{}}
	arms, err := arms(ctx, l, o)
	if err != nil {
		return nil, m, err
	}
	configs := make([]vmm.Config, 0, len(arms))
	for i, a := range arms {
		configs = append(configs, a.config)
		st.Targets, m.Targets[a.name] = append(st.Targets, a.name), a.facts
		m.Cells = append(m.Cells, study.Cell{ID: a.name + "/" + bootWorkload, Target: a.name, Workload: bootWorkload, Group: bootWorkload, Copies: 1, Control: i == 0})
	}
	st.Control, m.Trials = arms[0].name, o.Boots*len(arms)
	m.Study = st.WithDefaults()
	return configs, m, nil
}

// arm is a kernel on a VMM.
type arm struct {
	name   string
	config vmm.Config
	facts  driver.Facts
}

// arms are all of them, the kernels of the first VMM first.
func arms(ctx context.Context, l Bench, o Options) ([]arm, error) {
	kernels, err := inspected(o.Kernels)
	if err != nil {
		return nil, err
	}
	root, err := rootOf(ctx, l, o.Rootfs)
	if err != nil {
		return nil, err
	}
	var all []arm
	for _, on := range o.On {
		base, d, facts, err := machine(ctx, l, o, on, root)
		if err != nil {
			return nil, err
		}
		for i, k := range o.Kernels {
			a := arm{nameOf(o, on, k), base, facts}
			if err := a.boots(ctx, l, o, k, kernels[i], root); err != nil {
				return nil, &lab.InputError{Err: err}
			}
			all = append(all, a)
		}
		if len(o.Kernels) > 0 {
			continue
		}
		a := arm{on, base, facts}
		if err := a.bootsSystem(ctx, d, o, root); err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return apart(all), nil
}

// nameOf is as short as it can be.
func nameOf(o Options, on string, k Kernel) string {
	switch {
	case len(o.On) == 1:
		return k.Name
	case len(o.Kernels) == 1:
		return on
	}
	return on + " " + k.Name
}

// apart has every machine write to a disk of its own, where one of the VMMs makes no
// private copies: all are then booted from the same kind of disk.
func apart(all []arm) []arm {
	if slices.ContainsFunc(all, func(a arm) bool { return !a.config.VMM.Can(vmm.PrivateCopies) }) {
		for _, a := range all {
			for i := range a.config.Machine.Disks {
				a.config.Machine.Disks[i].Own = true
			}
		}
	}
	return all
}

// rootOf is the root file system as a disk; nil for none.
func rootOf(ctx context.Context, l Bench, rootfs string) (*vm.System, error) {
	if rootfs == "" {
		return nil, nil
	}
	place := l.Place()
	var err error
	if place.Guest.Rootfs, err = l.GuestRoot(ctx, rootfs); err != nil {
		return nil, err
	}
	s, err := vm.SystemDisk(ctx, place)
	if errors.As(err, new(*driver.CannotError)) {
		err = &lab.InputError{Err: fmt.Errorf("--rootfs: %w", err)}
	}
	return &s, err
}

// boots gives the arm a kernel of the user's.
func (a *arm) boots(ctx context.Context, l Bench, o Options, k Kernel, kernel vmm.Kernel, root *vm.System) error {
	m, v := &a.config.Machine, a.config.VMM
	if !slices.Contains(v.Formats, kernel.Format) {
		var err error
		if kernel, err = v.Kernel(ctx, kernel, l.Place().RunDir); err != nil {
			return fmt.Errorf("--kernel: %w", err)
		}
	}
	m.Kernel, m.Initrd, m.Append = kernel, k.Initrd, strings.Fields(o.Append)
	if root != nil && !slices.ContainsFunc(m.Append, func(p string) bool { return strings.HasPrefix(p, "root=") }) {
		m.Append = append([]string{"root=" + root.Device(0), "rw"}, m.Append...) // what is said twice counts the last time
	}
	var err error
	a.facts, err = bootFacts(a.facts, k, *m)
	return errors.Join(err, a.takes())
}

// bootsSystem gives it the kernel that guests have.
func (a *arm) bootsSystem(ctx context.Context, d driver.Driver, o Options, root *vm.System) error {
	machine, ok := driver.As[*vm.Driver](d)
	if !ok || root == nil {
		return &lab.InputError{Err: errors.New("--kernel: name at least one, or a --rootfs that the kernel of tare's guests boots")}
	}
	a.config.Machine.Append = strings.Fields(o.Append)
	if err := machine.BootSystem(ctx, *root, &a.config.Machine); err != nil {
		return err
	}
	m := a.config.Machine
	var err error
	a.facts, err = bootFacts(a.facts, Kernel{Kernel: m.Kernel.Path, Initrd: m.Initrd}, m)
	return errors.Join(err, a.takes())
}

// takes asks the VMM whether it can have the machine, whose disk will be its own.
func (a *arm) takes() error {
	m := a.config.Machine
	m.Disks = slices.Clone(m.Disks)
	for i := range m.Disks {
		m.Disks[i].Own = true
	}
	if err := a.config.VMM.Takes(m); err != nil {
		return &lab.InputError{Err: err}
	}
	return nil
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
func bootFacts(monitor driver.Facts, k Kernel, m vmm.Machine) (driver.Facts, error) {
	notes := map[string]string{}
	maps.Copy(notes, monitor.Notes)
	notes["arm"], notes["kernel"], notes[driver.NoteGuestKernel] = k.Kernel, fmt.Sprintf("%s (%s)", m.Kernel.Version, m.Kernel.Format), m.Kernel.Digest
	if m.NIC != nil {
		notes["network"] = "bridge, DHCP"
	}
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

// machine is what all boots on a VMM have in common, with the VMM's driver. Whether it
// works and how it runs guests its own check says.
func machine(ctx context.Context, l Bench, o Options, on string, root *vm.System) (vmm.Config, driver.Driver, driver.Facts, error) {
	v, ok := vmm.ByName(on)
	all, err := l.Drivers(ctx)
	if err != nil {
		return vmm.Config{}, nil, driver.Facts{}, err
	}
	i := slices.IndexFunc(all, func(d driver.Driver) bool { return d.Name() == on })
	switch {
	case !ok || i < 0:
		return vmm.Config{}, nil, driver.Facts{}, &lab.InputError{Err: fmt.Errorf("no virtual machine %q; tare check lists them", on)}
	case v.MaxCPUs > 0 && o.CPUs > v.MaxCPUs:
		return vmm.Config{}, nil, driver.Facts{}, &lab.InputError{Err: fmt.Errorf("%d CPUs: %s has at most %d", o.CPUs, on, v.MaxCPUs)}
	}
	f := l.Check(ctx, []driver.Driver{all[i]}, false)[0]
	if f.Err != nil && (len(o.Kernels) == 0 || !unproven(v, f)) {
		return vmm.Config{}, nil, f.Facts, f.Err
	}
	if f.Facts.Notes[driver.NoteBootsTo] != "" && len(o.Kernels) == 0 {
		return vmm.Config{}, nil, f.Facts, &driver.CannotError{Target: on, Lacks: f.Facts.Notes[driver.NoteNoKVM]}
	}
	m := vmm.Machine{CPUs: o.CPUs, Memory: o.Memory, Accel: vmm.Accel(f.Facts.Notes[driver.NoteAccel])}
	if f.Err != nil { // KVM runs no stock guest; the user's kernel may get farther
		m.Accel, f.Facts.Notes = vmm.KVM, maps.Clone(f.Facts.Notes)
		f.Facts.Notes[driver.NoteAccel] = string(vmm.KVM)
		l.Config().Say(fmt.Sprintf("%s: no guest of tare's runs under KVM here; your kernel is tried: %s", on, f.Facts.Notes[driver.NoteNoKVM]))
	}
	if root != nil {
		m.Disks = []vmm.Disk{{Path: root.Disk}}
	}
	if o.Network {
		m.NIC = &vmm.NIC{} // each boot's own
	}
	return vmm.Config{VMM: v, Path: f.Facts.Path, Machine: m, Launcher: l.Place().LaunchPath}, all[i], f.Facts, nil
}

// unproven reports whether a VMM that needs KVM is here, and so is KVM, and no more than a
// boot of tare's own guest has failed.
func unproven(v vmm.VMM, f lab.Finding) bool {
	return !v.Can(vmm.Emulating) && f.Facts.Notes[driver.NoteNoKVM] != "" && unix.Access("/dev/kvm", unix.R_OK|unix.W_OK) == nil
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
	from := b.from
	b.mu.Unlock()
	b.note(name, now.Sub(from).Seconds())
}

// note keeps a value of the boot, the first time.
func (b *ownBoot) note(name string, value float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.values[name] == nil && !b.over {
		b.values[name] = []float64{value}
	}
}

// reached are the milestones of a boot that failed, in seconds since the monitor's exec.
func (b *ownBoot) reached() map[string]float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[string]float64{}
	for name, values := range b.values {
		if name != sample.Ready { // the machine's end, which was none
			all[name] = values[0]
		}
	}
	return all
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
		for metric, own := range vmm.SystemdTimes(line) {
			b.note(metric, own.Seconds())
		}
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
	if err := ownDisks(ctx, &config); err != nil {
		return b, err
	}
	if o.Network {
		leave, err := join(ctx, &config)
		if err != nil {
			return b, driver.Labf("network of the machine: %w", err)
		}
		defer func() { err = errors.Join(err, leave()) }()
	}
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

// ownDisks gives a machine copies of its disks, where it is to write to them.
func ownDisks(ctx context.Context, config *vmm.Config) error {
	config.Machine.Disks = slices.Clone(config.Machine.Disks)
	for i := range config.Machine.Disks {
		d := &config.Machine.Disks[i]
		if !d.Own {
			continue
		}
		own := filepath.Join(config.Dir, fmt.Sprintf("disk%d.raw", i))
		if err := sys.CopySparse(ctx, own, d.Path); err != nil {
			return driver.Labf("disk of the machine: %w", err)
		}
		d.Path = own
	}
	return nil
}

// join gives a machine a link to a bridge of its own, in a network namespace without a way
// out, whose host answers DHCP. leave takes it away, after the machine's end.
func join(ctx context.Context, config *vmm.Config) (leave func() error, err error) {
	network, err := net.Build(ctx, net.Options{Path: net.Bridge, Taps: true, ClientOnHost: true})
	if err != nil {
		return nil, err
	}
	guest := network.Server
	lease, err := guest.Lease()
	if err != nil {
		return nil, errors.Join(err, network.Close())
	}
	config.Network, config.Machine.NIC = guest.Namespace.Path(), &vmm.NIC{Tap: guest.Tap, Hardware: guest.Hardware}
	return func() error { return errors.Join(lease.Close(), network.Close()) }, nil
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
