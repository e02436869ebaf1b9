// Package vm is the family of virtual machines: a payload runs in a guest of its
// own, booted for it from the same files that the other targets use, by tare's
// agent (helpers/init.c), which is the guest's first process. The VMMs and how
// they are talked to are package vmm's.
package vm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/helpers"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/launch"
	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/vmm"
)

// ownDisk is the size of a guest's own disk, in bytes; what is not written to
// takes no room.
const ownDisk = 4 << 30

// defaultMemory is a guest's, where neither the user nor a limit says.
const defaultMemory = 512 << 20

// Drivers are the drivers of all VMMs of this architecture.
func Drivers(lab driver.Lab) []driver.Driver {
	home := newHome(lab)
	var all []driver.Driver
	for _, v := range vmm.VMMs() {
		all = append(all, &Driver{lab: lab, vmm: v, home: home})
	}
	return all
}

// Foreign are the names of drivers that there are for other architectures than this
// one alone, each with these.
func Foreign(arch string) map[string][]string {
	all := vmm.Foreign(arch)
	for name, of := range maps.Clone(all) {
		all[name+RestoredSuffix] = of
	}
	return all
}

// New is the driver of one VMM.
func New(lab driver.Lab, v vmm.VMM) *Driver { return &Driver{lab: lab, vmm: v, home: newHome(lab)} }

// Of is the driver of a virtual machine of any architecture, by its name there; kernel is
// that of its guests: a path, a release, or "" for the distribution's. The agent of another
// architecture than this machine's is put into lab.RunDir.
func Of(lab driver.Lab, arch, name, kernel string) (*Driver, error) {
	all := vmm.For(arch)
	i := slices.IndexFunc(all, func(v vmm.VMM) bool { return v.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%s has no virtual machine %q", arch, name)
	}
	home := newHome(lab)
	if home.arch = arch; arch != runtime.GOARCH {
		agent, err := helpers.ReadFor(arch, helpers.Init)
		if err != nil {
			return nil, err
		}
		home.lab.InitPath = filepath.Join(lab.RunDir, helpers.Init+"-"+arch)
		if err := os.WriteFile(home.lab.InitPath, agent, 0o755); err != nil {
			return nil, driver.Labf("the guest's agent: %w", err)
		}
	}
	return &Driver{lab: home.lab, vmm: all[i], home: home, kernel: kernel}, nil
}

// Driver runs payloads in guests of one VMM.
type Driver struct {
	lab    driver.Lab
	vmm    vmm.VMM
	home   *home
	kernel string // of the target's name: a path, or a release; "" for the kernel that all guests have
	saved  *saved // the guests that this one's are restored from; nil for a driver that boots each
}

// Name implements driver.Driver.
func (d *Driver) Name() string {
	name := d.vmm.Name
	if d.saved != nil {
		name += RestoredSuffix
	}
	if d.kernel != "" {
		name += driver.ProgramSign + d.kernel
	}
	return name
}

// RestoredSuffix ends the name of a target whose guests are restored: qemu/microvm/restored.
const RestoredSuffix = "/restored"

// Named implements driver.Namer: MACHINE=/boot/vmlinuz and MACHINE=debian/6.1 are the
// machine with that kernel, MACHINE/restored one whose guests are restored.
func (d *Driver) Named(_ context.Context, name string) driver.Driver {
	base, kernel, named := strings.Cut(name, driver.ProgramSign)
	base, restored := strings.CutSuffix(base, RestoredSuffix)
	if base != d.vmm.Name || d.kernel != "" || d.saved != nil || !named && !restored {
		return nil
	}
	if named && !filepath.IsAbs(kernel) && !driver.IsRelease(kernel) {
		return nil
	}
	other := *d
	other.kernel = kernel
	if restored {
		other.saved = &saved{all: map[string]string{}}
	}
	return &other
}

// Properties implements driver.Driver. A guest is not a PID namespace: the
// payload's process id there is not 1, the agent's is.
func (d *Driver) Properties() driver.Properties {
	p := driver.Properties{Family: "vm", Boundary: driver.MachineBoundary, MaxParallel: 4, StreamBytes: 8 << 20, ExactSignal: true,
		Joins: joins(d.lab.Root), StartTime: d.startTime(), CheckTime: proofsTime(d.patience()), Order: d.vmm.Order,
		Footprint: driver.Footprint{Tasks: MonitorTasks, Memory: int(d.touched())}, Machine: d.Offers(nil)}
	if d.saved != nil {
		p.Joins = "" // the saved guest's link is not another one's
		p.Order++
	}
	return p
}

// Offers are what a machine of this VMM has besides its payload.
func (d *Driver) Offers(host *driver.ContainerHost) *driver.Machine {
	return &driver.Machine{Takes: d.takes, Memory: d.memory, Forget: d.home.forget, Host: host}
}

// joins: a tap is opened by who may change the network.
func joins(root bool) driver.Joining {
	if root {
		return driver.JoinsTap
	}
	return ""
}

// MonitorTasks are the threads of a VMM beside one for each of the guest's CPUs.
const MonitorTasks = 8

// touchedMemory is what a VMM and a guest touch that boots the workbench: 323 and
// 334 MiB were seen of QEMU's two machines under TCG.
const touchedMemory = 384 << 20

// touched is that, or all of a smaller guest's memory and a VMM's own.
func (d *Driver) touched() int64 {
	if m := d.lab.Guest.Memory; m > 0 && d.lab.Guest.Rootfs == "" {
		return min(m+touchedMemory/4, touchedMemory)
	} else if d.lab.Guest.Rootfs != "" {
		return cmp.Or(m, systemMemory) + touchedMemory/4
	}
	return touchedMemory
}

// startTime is about how long a start takes, under emulation where the VMM has that.
func (d *Driver) startTime() time.Duration {
	if d.lab.Guest.Rootfs != "" {
		return systemTime
	}
	return d.vmm.StartTime
}

// Cannot is the error of a target that lacks something on this machine, with what to
// do about it.
func (d *Driver) Cannot(remedy, format string, args ...any) error {
	return &driver.CannotError{Target: d.Name(), Lacks: fmt.Sprintf(format, args...), Remedy: remedy}
}

// Locate implements driver.Located: the absolute path of the VMM's program.
func (d *Driver) Locate() (string, error) {
	path, err := sys.FindProgram(d.lab.ToolDirs, d.vmm.Binary)
	if err != nil {
		return "", d.Cannot(d.vmm.Remedy, "%s is not installed", d.vmm.Binary)
	}
	return path, nil
}

// Check proves the VMM: a guest boots, with the acceleration that works here,
// and a payload's mark and exit code come back.
func (d *Driver) Check(ctx context.Context) (driver.Facts, error) {
	path, err := d.Locate()
	if err != nil {
		return driver.Facts{}, err
	}
	facts := driver.Facts{Path: path, Notes: map[string]string{}}
	if facts.Version, err = d.Version(ctx, path); err != nil {
		return facts, err
	}
	if facts.Digest, err = sys.FileDigest(path); err != nil {
		return facts, driver.Labf("%s: %w", d.Name(), err)
	}
	g, err := d.home.kernelFor(ctx, d)
	if err != nil {
		return facts, err
	}
	if err := d.describe(ctx, g, facts.Notes); err != nil {
		return facts, err
	}
	if err := d.accelerated(ctx, path, g, facts.Notes); err != nil {
		return facts, err
	}
	if facts.Notes[driver.NoteBootsTo] != "" { // no payload could be proven
		return facts, nil
	}
	if facts.Notes[driver.NoteDirect], err = d.directIO(); err != nil {
		return facts, err
	}
	if facts.Notes[driver.NoteAccel] == string(vmm.TCG) {
		facts.Notes["translation-cache"] = fmt.Sprintf("at most %d MiB", vmm.TranslationCache)
	}
	err = launch.Prove(ctx, d, d.lab)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no guest ran the check's payload in time, for which the machine may be too busy: %w", err)
	}
	if err != nil {
		return facts, &brief{err}
	}
	return facts, nil
}

// describe notes what guests are made of.
func (d *Driver) describe(ctx context.Context, g guestKernel, notes map[string]string) error {
	notes["kernel"] = fmt.Sprintf("%s (%s)", g.kernel.Version, g.kernel.Format)
	notes[driver.NoteGuestKernel], notes[driver.NoteKernelFile] = g.kernel.Digest, g.of.Digest
	if g.source != "" {
		notes["kernel-package"] = g.source
	}
	if d.lab.Guest.Rootfs != "" {
		s, err := d.home.system(ctx)
		if err != nil {
			return err
		}
		notes[driver.NoteSystem] = s.ID
		if err := d.mounts(g, s); err != nil {
			return err
		}
	}
	modules, err := d.home.moduleSet(ctx, g)
	if err != nil {
		return err
	}
	if modules.digest != "" {
		notes["modules-digest"], notes["modules"] = modules.digest, g.modules
	}
	return nil
}

// accelerated notes what will run the guest's CPU, why not KVM, and where boots end.
func (d *Driver) accelerated(ctx context.Context, path string, g guestKernel, notes map[string]string) error {
	p, err := d.home.acceleration(ctx, d, path, g)
	notes[driver.NoteAccel] = string(p.Accel)
	if p.Why != "" {
		notes[driver.NoteNoKVM] = p.Why
	}
	if err == nil && p.Until != "" {
		notes[driver.NoteBootsTo] = string(p.Until)
	}
	return err
}

// Stale implements driver.Staler: a check found another acceleration than what is
// known now, or nothing is known any more, since a failure does not hold for ever.
func (d *Driver) Stale(found driver.Facts) bool {
	accel := vmm.KVM
	if found.Notes[driver.NoteNoKVM] != "" {
		accel = vmm.TCG
	} else if found.Notes[driver.NoteAccel] == "" {
		return false // it came to no proof
	}
	p, _, err := d.home.remembered(d.vmm.Name, found.Path, found.Notes[driver.NoteGuestKernel])
	return err != nil || p.Accel != accel
}

// brief is an error without the console's lines: a table has no room for them.
type brief struct{ err error }

func (b *brief) Error() string { return firstLine(b.err) }

func (b *brief) Unwrap() error { return b.err }

// Version is the first line that the program says of itself.
func (d *Driver) Version(ctx context.Context, path string) (string, error) {
	out, err := exec.CommandContext(ctx, path, d.vmm.Version...).Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", path, strings.Join(d.vmm.Version, " "), err)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return strings.TrimPrefix(line, d.vmm.Banner), nil
}

// Prepare makes the guest's files, unless they are kept from before, and starts
// the launcher, which waits.
func (d *Driver) Prepare(ctx context.Context, spec driver.Spec, dir string) (driver.Instance, error) {
	path, err := d.Locate()
	if err != nil {
		return nil, err
	}
	m, err := d.machine(ctx, path, spec, dir)
	if err != nil {
		return nil, err
	}
	if d.saved != nil {
		if m.From, err = d.savedGuest(ctx, path, m, spec); err != nil {
			return nil, err
		}
	}
	if err := d.Confine(spec); err != nil {
		return nil, err
	}
	return newInstance(ctx, d, path, m, spec, dir)
}

// machine is the guest that a spec asks for.
func (d *Driver) machine(ctx context.Context, path string, spec driver.Spec, dir string) (vmm.Machine, error) {
	m := vmm.Machine{Agent: true, CPUs: d.CPUs(spec.Limits), Memory: d.memory(spec.Limits), NoSeccomp: d.lab.Guest.NoSeccomp}
	if len(spec.Mounts) > 0 {
		return m, d.Cannot("", "a guest shares no file or directory with the host, and %s is to be mounted at %s", spec.Mounts[0].Source, spec.Mounts[0].Target)
	}
	if err := d.Affordable(m.Memory); err != nil {
		return m, err
	}
	g, err := d.home.kernelFor(ctx, d)
	if err != nil {
		return m, err
	}
	m.Kernel = g.kernel
	p, err := d.home.acceleration(ctx, d, path, g)
	if err != nil {
		return m, err
	}
	m.Accel = p.Accel
	m.Devices = spec.Devices
	if err := d.disk(ctx, spec, dir, &g, &m); err != nil {
		return m, err
	}
	if j := spec.Join; j.Tap != "" {
		m.NIC = &vmm.NIC{Tap: j.Tap, Hardware: j.Hardware}
		m.Append = append(m.Append, addressOf(j))
	}
	g.wanted = slices.Concat(g.wanted, spec.Modules, m.Modules())
	if d.lab.Guest.Rootfs != "" {
		if err := d.withSystem(ctx, dir, &g, &m); err != nil {
			return m, err
		}
	}
	if err := d.home.root(ctx, g, spec.Rootfs, &m); err != nil {
		return m, err
	}
	if d.lab.Guest.Append != "" {
		m.Append = append(m.Append, d.lab.Guest.Append)
	}
	if p.Until != "" { // the machine outlives its kernel's panic, so that it can be looked at
		m.Append = append(m.Append, initShown, "panic=0")
	}
	return m, nil
}

// addressOf tells the agent what to give the guest's link.
func addressOf(j driver.Join) string {
	text := "tare_net=" + j.Address.String()
	if j.Gateway.IsValid() {
		text += "," + j.Gateway.String()
	}
	return text
}

// takes is Machine.Takes.
func (d *Driver) takes(ctx context.Context, l driver.Limits, devices driver.Devices) error {
	path, err := d.Locate()
	if err != nil {
		return err
	}
	g, err := d.home.kernelFor(ctx, d)
	if err != nil {
		return err
	}
	p, err := d.home.acceleration(ctx, d, path, g)
	if err != nil {
		return err
	}
	m := vmm.Machine{Kernel: g.kernel, CPUs: 1, Memory: d.memory(l), Accel: p.Accel, Devices: devices}
	if devices.VirtioFS {
		m.Share = d.lab.RunDir // as good as any: nothing is started
	}
	if d.saved != nil {
		m.From = d.lab.RunDir
	}
	if err := d.vmm.Takes(m); err != nil {
		return err
	}
	if why := deviceLacks(vhostDevice); devices.Vhost && why != "" {
		return d.Cannot("modprobe vhost_net", "vhost-net: %s", why)
	}
	if g.modules == "" { // without modules, all is taken to be built in
		return nil
	}
	_, missing, err := g.read(ctx, m.Modules())
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return d.Cannot("give another kernel", "the guest's kernel %s has no %s", g.kernel.Version, strings.Join(missing, " and no "))
	}
	return nil
}

// vhostDevice is where the host's kernel offers to move packets.
const vhostDevice = "/dev/vhost-net"

// memory is that of a guest with these limits, in bytes.
func (d *Driver) memory(l driver.Limits) int64 {
	usual := int64(defaultMemory)
	if d.lab.Guest.Rootfs != "" {
		usual = systemMemory
	}
	return cmp.Or(l.Memory, d.lab.Guest.Memory, usual)
}

// disk gives the guest an empty disk where the payload's files must lie on one, or a
// directory of the host's in place of it.
func (d *Driver) disk(ctx context.Context, spec driver.Spec, dir string, g *guestKernel, m *vmm.Machine) error {
	if spec.Disk == "" {
		return nil
	}
	if spec.Devices.VirtioFS {
		m.Share, m.ShareDirect = filepath.Join(dir, "share"), spec.Direct
		m.Append = append(m.Append, "tare_share="+spec.Disk)
		if err := os.Mkdir(m.Share, 0o700); err != nil {
			return driver.Labf("directory of the guest: %w", err)
		}
		return nil
	}
	file := filepath.Join(dir, "disk.ext4")
	if err := image.EmptyExt4(ctx, file, ownDisk); err != nil {
		return driver.Labf("disk of the guest: %w", err)
	}
	g.wanted = append(slices.Clone(g.wanted), "ext4")
	m.Disks = append(m.Disks, vmm.Disk{Path: file, Own: true, Direct: spec.Direct && takesDirect(file)})
	m.Append = append(m.Append, "tare_disk="+spec.Disk)
	return nil
}

// takesDirect reports whether a file can be opened past the host's page cache
// (open(2), O_DIRECT): not every file system has that.
func takesDirect(file string) bool {
	fd, err := unix.Open(file, unix.O_RDWR|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	_ = unix.Close(fd) // nothing was written
	return true
}

// directIO says what becomes of a guest's direct I/O on the host.
func (d *Driver) directIO() (string, error) {
	if !d.vmm.Can(vmm.Uncached) {
		return "only past the guest's page cache: " + d.vmm.Binary + " opens no disk past the host's", nil
	}
	f, err := os.CreateTemp(d.lab.RunDir, driver.Label+"-direct-")
	if err != nil {
		return "", driver.Labf("disk of the guest: %w", err)
	}
	defer os.Remove(f.Name())
	f.Close()
	if !takesDirect(f.Name()) {
		return "only past the guest's page cache: the file system of " + d.lab.RunDir + " has no O_DIRECT", nil
	}
	return "past the guest's and the host's page cache", nil
}

// CPUs are as many as the payload may use of the host's.
func (d *Driver) CPUs(l driver.Limits) int {
	var set unix.CPUSet
	n := 1
	if err := unix.SchedGetaffinity(0, &set); err == nil {
		n = set.Count()
	}
	if l.CPUSet != "" {
		n = min(n, countCPUs(l.CPUSet))
	}
	if d.vmm.MaxCPUs > 0 {
		n = min(n, d.vmm.MaxCPUs)
	}
	return n
}

// countCPUs counts a list such as "0-1,4"; what it cannot read counts as one
// CPU, and the kernel refuses it by name.
func countCPUs(set string) int {
	cpus, err := sys.ParseCPUs(set)
	if err != nil {
		return 1
	}
	return len(cpus)
}

// Affordable refuses a guest that is bigger than the host.
func (d *Driver) Affordable(memory int64) error {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return driver.Labf("sysinfo: %w", err)
	}
	if total := int64(info.Totalram) * int64(info.Unit); memory > total {
		return d.Cannot("give the guest less", "a guest of %d MiB does not fit into the host's %d MiB", memory>>20, total>>20)
	}
	return nil
}

// Confine sets the limits that lie outside of the guest: its memory is the
// machine's, its processes are the agent's to count. The group's own memory
// stays open, because the VMM needs some beside the guest's.
func (d *Driver) Confine(spec driver.Spec) error {
	l := spec.Limits
	if spec.Cgroup == "" {
		if l.CPUs > 0 || l.CPUSet != "" || l.Mems != "" || l.Shares > 0 || l.Idle {
			return d.Cannot("run tare as root", "a VMM can be held to a part of the CPUs only in a cgroup, and this user may make none")
		}
		return nil
	}
	groups, err := launch.Groups(spec, false, driver.RolePayload, driver.RoleRuntime)
	if err != nil {
		return driver.Labf("cgroup: %w", err)
	}
	return groups.Apply(spec.Group(driver.RolePayload), sys.Bounds{CPUs: l.CPUs, CPUSet: l.CPUSet, Mems: l.Mems, Shares: l.Shares, Idle: l.Idle})
}

// guestError words what the machine tells, but for a context that has ended.
func guestError(ctx context.Context, m *vmm.VM, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ctx.Err(), m.Explain(errors.New("the guest was ended")))
	}
	return m.Explain(err)
}
