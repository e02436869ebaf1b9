package vm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/vmm"
)

// hostMemory is a container host's, where the user does not say.
const hostMemory = 1 << 30

// hostCode is room for the translated code of systemd, Docker and its runtimes.
const hostCode = 512 << 20

// hostHZ is the rate of ticks of trimmed kernels, Kconfig's own choice. With it and
// the TSC's frequency, which a guest under TCG is told as well, no CPU has to
// measure its speed (lpj, loops per tick): 0.1 s for the second one.
const hostHZ = 250

// hostOff is how long a container host may take to shut down.
const hostOff = 60 * time.Second

// Host is a driver whose payloads run as containers in a virtual machine that
// is booted for each of them: from its exec to its power-off, all is the trial.
type Host struct {
	*Driver // of its VMM
	arm     arm
	parts   *hostParts
}

// hostArch is the architecture that container hosts' kernels are made for.
const hostArch = "amd64"

// hosts are the drivers of all arms.
func hosts(lab driver.Lab, home *home) []driver.Driver {
	if runtime.GOARCH != hostArch {
		return nil
	}
	var all []driver.Driver
	kept := newHostParts(lab, home)
	for _, a := range arms() {
		if v, ok := vmm.ByName(a.machine); ok {
			all = append(all, &Host{Driver: &Driver{lab: lab, vmm: v, home: home}, arm: a, parts: kept})
		}
	}
	return all
}

// Name implements driver.Driver.
func (h *Host) Name() string { return hostName(h.arm) }

func hostName(a arm) string { return "vm/" + a.name }

// Properties implements driver.Driver.
func (h *Host) Properties() driver.Properties {
	order := slices.IndexFunc(arms(), func(a arm) bool { return a.name == h.arm.name })
	return driver.Properties{Family: "vm", NeedsRoot: true, Isolated: true, MaxParallel: 4, StreamBytes: 8 << 20, StartTime: h.arm.usual(), CheckTime: proofsTime(),
		Order: 700 + order, AddsEnv: []string{"PATH", "HOSTNAME", "HOME"},
		Footprint: driver.Footprint{Tasks: monitorTasks, Memory: hostMemory},
		Machine:   h.offers(&driver.ContainerHost{Make: h.makeParts, BootLog: h.bootLog, ProvesOn: h.arm.machine, Proof: proofScript, Prove: h.prove})}
}

// makeParts is ContainerHost.Make: the disk, which a boot of the distribution's
// kernel completes, and the kernel.
func (h *Host) makeParts(ctx context.Context, tell func(string)) error {
	if _, err := h.Locate(); err != nil {
		return err
	}
	return h.parts.locked(ctx, tell, func() error {
		disk, err := h.parts.forVariant(ctx, h, h.arm, tell)
		if err != nil || !h.arm.toProve() {
			return err
		}
		return h.parts.prove(ctx, h, disk, tell)
	})
}

// Check says what the arm is made of. It boots nothing: a boot takes half a
// minute, and that of the disk's making has proven it.
func (h *Host) Check(ctx context.Context) (driver.Facts, error) {
	path, err := h.Locate()
	if err != nil {
		return driver.Facts{}, err
	}
	facts := driver.Facts{Path: path, Notes: map[string]string{"arm": h.arm.why}}
	if facts.Version, err = h.version(ctx, path); err != nil {
		return facts, err
	}
	if !h.parts.there(h.lab.TestImage, h.arm) {
		return facts, h.cannot("tare run container-vm-trim makes them", "its disk or its kernel is not made yet")
	}
	notes, err := h.parts.notes(ctx, h.arm)
	if err != nil {
		return facts, err
	}
	maps.Copy(facts.Notes, notes)
	g, err := h.home.kernelFor(ctx, h.Driver)
	if err != nil {
		return facts, err
	}
	return facts, h.accelerated(ctx, path, g, facts.Notes)
}

// Stale implements driver.Staler. It is always true: the check costs little, and what it found of acceleration
// is of the distribution's kernel, not of the arm's.
func (h *Host) Stale(driver.Facts) bool { return true }

// Prepare implements driver.Driver.
func (h *Host) Prepare(ctx context.Context, spec driver.Spec, dir string) (driver.Instance, error) {
	path, err := h.Locate()
	if err != nil {
		return nil, err
	}
	if len(spec.Mounts) > 0 {
		return nil, h.cannot("", "a guest shares no file or directory with the host, and %s is to be mounted at %s", spec.Mounts[0].Source, spec.Mounts[0].Target)
	}
	if spec.Image == "" {
		return nil, h.cannot("", "a container host takes images, and %s is a directory", spec.Rootfs)
	}
	disk, err := h.parts.disk(ctx, h, spec.Image, func(string) {})
	if err != nil {
		return nil, err
	}
	m, err := h.machineOf(ctx, path, h.arm)
	if err != nil {
		return nil, err
	}
	m.Disks = []vmm.Disk{{Path: disk}}
	if spec.Beside {
		tool, err := toolDisk(ctx, spec.Tool, dir)
		if err != nil {
			return nil, err
		}
		m.Disks = append(m.Disks, tool)
	}
	outside := spec
	outside.Limits = driver.Limits{} // they are the container's
	if err := h.confine(outside); err != nil {
		return nil, err
	}
	i, err := h.boot(ctx, path, m, h.inside(spec), dir)
	if err != nil {
		return nil, err
	}
	return i, nil
}

// inside is a spec as the agent is asked for it: the container's start.
func (h *Host) inside(spec driver.Spec) driver.Spec {
	out := spec
	out.Args, out.Env, out.Cwd, out.User, out.Limits = nil, hostEnv, "", driver.User{}, driver.Limits{}
	if spec.Beside {
		out.Args = append([]string{"/bin/sh", "-c", toolScript, "sh"}, spec.Args...)
		out.Env = append(slices.Clone(hostEnv), driver.EnvImage+"="+hostImage, driver.EnvTool+"="+hostTool)
		return out
	}
	out.Args = h.arm.run(spec)
	return out
}

// hostTool is where a payload beside the engine finds its tool, and toolScript
// puts it there: it is on the machine's second disk.
const (
	hostTool   = "/run/tare-tool/tool"
	toolScript = `mkdir /run/tare-tool && mount -o ro /dev/vdb /run/tare-tool && exec "$@"`
)

// toolDisk is a disk with a program of this machine's.
func toolDisk(ctx context.Context, program, dir string) (vmm.Disk, error) {
	disk := vmm.Disk{Path: filepath.Join(dir, "tool.ext4"), ReadOnly: true}
	tree := filepath.Join(dir, "tool")
	data, err := os.ReadFile(program)
	if err == nil {
		err = os.Mkdir(tree, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(tree, filepath.Base(hostTool)), data, 0o755)
	}
	if err == nil {
		err = image.Ext4Of(ctx, disk.Path, tree, int64(len(data))+16<<20) // beside it, what ext4 keeps for itself
	}
	if err != nil {
		return disk, driver.Labf("disk with the tool: %w", err)
	}
	return disk, nil
}

// CheckHost implements driver.Hoster: systemd's arms have Docker, as the boot that
// completed their disk has proven.
func (h *Host) CheckHost(context.Context) error {
	if !h.arm.systemd {
		return h.cannot("take one with systemd, as vm/stock or vm/trimmed", "its Docker does not run before a container is asked for")
	}
	return nil
}

// machineOf is the machine of an arm, without its disk.
func (h *Host) machineOf(ctx context.Context, path string, a arm) (vmm.Machine, error) {
	m := vmm.Machine{Agent: true, Translations: hostCode, CPUs: cmp.Or(a.cpus, h.cpus(driver.Limits{})), Memory: cmp.Or(a.memory, h.lab.Guest.Memory, hostMemory)}
	if err := h.affordable(m.Memory); err != nil {
		return m, err
	}
	g, err := h.home.kernelFor(ctx, h.Driver)
	if err != nil {
		return m, err
	}
	if m.Accel, _, err = h.home.acceleration(ctx, h.Driver, path, g); err != nil {
		return m, err
	}
	if m.Kernel, err = h.parts.kernelOf(ctx, a); err != nil {
		return m, err
	}
	if m.Initrd, err = h.parts.initrdOf(ctx, a); err != nil {
		return m, err
	}
	m.Append = []string{"panic=-1"}
	if khz := sys.TSC(); a.packed != "" && m.Accel == vmm.TCG && khz > 0 {
		m.Append = append(m.Append, fmt.Sprintf("lpj=%d", khz*1000/hostHZ))
	}
	m.Append = append(m.Append, a.append...)
	switch {
	case a.initrd == agentInitrd:
		m.Append = append(m.Append, "rdinit=/.tare/init", "tare_root=/dev/vda", "tare_host=1")
	case a.systemd:
		m.Append = append(append(m.Append, "root=/dev/vda", "rw"), unitsTold...)
	default:
		m.Append = append(m.Append, "root=/dev/vda", "rw", "init="+hostAgent, "tare_host=1")
	}
	if h.lab.Guest.Append != "" {
		m.Append = append(m.Append, h.lab.Guest.Append)
	}
	return m, nil
}

// unitsTold has systemd tell of its units in the kernel's log, whole names and to
// the end: what it shows on a console is cut, and ends where a login begins.
var unitsTold = []string{"systemd.log_target=kmsg", "systemd.show_status=no", "printk.devkmsg=on"}

// boot prepares a machine whose agent runs spec.
func (h *Host) boot(ctx context.Context, path string, m vmm.Machine, spec driver.Spec, dir string) (*instance, error) {
	tell := spec.Console
	if tell == nil {
		tell = func(string) {}
	}
	i := &instance{driver: h.Driver, spec: spec, memory: m.Mapped(), off: hostOff, result: make(chan result, 1),
		seen: func(process string) { tell("tare: process " + process) }}
	milestone := vmm.Milestones(func(name string) { i.mark(driver.Phase(name)) })
	line := func(text string) {
		milestone(text)
		tell(text)
	}
	err := i.open(ctx, vmm.Config{VMM: h.vmm, Path: path, Machine: m, Dir: dir, Launcher: h.lab.LaunchPath, Cgroup: payloadGroup(spec),
		Mark: func(at vmm.Mark) { i.mark(driver.Phase(at)) }, Line: line, Patience: hostPatience})
	if err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return i, nil
}

// hostPatience is for machines that hang: engines start in their own time, and a
// busy host gives a boot a tenth of its CPUs.
var hostPatience = map[vmm.Mark]time.Duration{
	vmm.MarkFirstByte: time.Minute, vmm.MarkKernel: time.Minute, vmm.MarkInit: 3 * time.Minute, vmm.MarkAgent: 5 * time.Minute,
}

// lastWords is the end of what a program said, for an error.
func lastWords(text []byte) string {
	s := strings.TrimSpace(string(text))
	return s[max(0, len(s)-500):]
}
