// Package containerhost is the family of container hosts: virtual machines that boot
// Linux with a container engine or a runtime, from a disk and a kernel that tare
// makes, once for each payload. Their variants differ in the kernel and in what starts
// the container. They stand on the virtual machines of package vm.
package containerhost

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/vm"
	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/vmm"
)

// hostMemory is a container host's, where the user does not say.
const hostMemory = 1 << 30

// Translations is room for the translated code of systemd, Docker and its runtimes, in
// bytes.
const Translations = 512 << 20

// hostHZ is the rate of ticks of trimmed kernels, Kconfig's own choice. With it and
// the TSC's frequency, which a guest under TCG is told as well, no CPU has to
// measure its speed (lpj, loops per tick): 0.1 s for the second one.
const hostHZ = 250

// hostOff is how long a container host may take to shut down.
const hostOff = 60 * time.Second

// Host is a driver whose payloads run as containers in a virtual machine that
// is booted for each of them: from its exec to its power-off, all is the trial.
type Host struct {
	*vm.Driver // of its VMM
	lab        driver.Lab
	arm        arm
	parts      *hostParts
}

// hostArch is the architecture that container hosts' kernels are made for.
const hostArch = "amd64"

// Add adds container hosts to a list of drivers, on the virtual machines in it, and
// keeps its order: nearest to the host first.
func Add(drivers func(driver.Lab) []driver.Driver) func(driver.Lab) []driver.Driver {
	return func(lab driver.Lab) []driver.Driver {
		all := drivers(lab)
		all = append(all, hosts(lab, all)...)
		slices.SortStableFunc(all, func(a, b driver.Driver) int { return cmp.Compare(a.Properties().Order, b.Properties().Order) })
		return all
	}
}

// hosts are the drivers of all arms, on the virtual machines among drivers.
func hosts(lab driver.Lab, drivers []driver.Driver) []driver.Driver {
	if runtime.GOARCH != hostArch {
		return nil
	}
	machines := map[string]*vm.Driver{}
	for _, d := range drivers {
		if m, ok := driver.As[*vm.Driver](d); ok {
			machines[m.Name()] = m
		}
	}
	var all []driver.Driver
	var kept *hostParts
	for _, a := range arms() {
		if m := machines[a.machine]; m != nil {
			if kept == nil {
				kept = newHostParts(lab, m)
			}
			all = append(all, &Host{Driver: m, lab: lab, arm: a, parts: kept})
		}
	}
	return all
}

// Foreign adds the names of container hosts to those of targets that other
// architectures have, each with these.
func Foreign(all map[string][]string) map[string][]string {
	all = maps.Clone(all)
	if runtime.GOARCH != hostArch {
		for _, a := range arms() {
			all[hostName(a)] = []string{hostArch}
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
	return driver.Properties{Family: "vm", Boundary: driver.MachineBoundary, NeedsRoot: true, Isolated: true, MaxParallel: 4, StreamBytes: 8 << 20, StartTime: h.arm.usual(), CheckTime: vm.ProofsTime(),
		Order: 700 + order, AddsEnv: []string{"PATH", "HOSTNAME", "HOME"},
		Footprint: driver.Footprint{Tasks: vm.MonitorTasks, Memory: hostMemory},
		Machine:   h.Offers(&driver.ContainerHost{Make: h.makeParts, BootLog: h.bootLog, ProvesOn: h.arm.machine, Proof: proofScript, Prove: h.prove, Run: h.run})}
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

// armWith is the host's arm, or one with another kernel's file on its machine.
func (h *Host) armWith(kernel string) arm {
	if kernel == "" {
		return h.arm
	}
	return arm{name: "given", machine: h.arm.machine, image: kernel}
}

// diskFor makes what an arm boots, one process at a time, and gives its disk.
func (h *Host) diskFor(ctx context.Context, a arm, tell func(string)) (disk string, err error) {
	err = h.parts.locked(ctx, tell, func() (err error) {
		disk, err = h.parts.forVariant(ctx, h, a, tell)
		return err
	})
	return disk, err
}

// Check says what the arm is made of. It boots nothing: a boot takes half a
// minute, and that of the disk's making has proven it.
func (h *Host) Check(ctx context.Context) (driver.Facts, error) {
	path, err := h.Locate()
	if err != nil {
		return driver.Facts{}, err
	}
	facts := driver.Facts{Path: path, Notes: map[string]string{"arm": h.arm.why}}
	if facts.Version, err = h.Version(ctx, path); err != nil {
		return facts, err
	}
	if !h.parts.there(h.lab.TestImage, h.arm) {
		return facts, h.Cannot("tare run container-vm-trim makes them", "its disk or its kernel is not made yet")
	}
	notes, err := h.parts.notes(ctx, h.arm)
	if err != nil {
		return facts, err
	}
	maps.Copy(facts.Notes, notes)
	return facts, h.NoteAcceleration(ctx, path, facts.Notes)
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
		return nil, h.Cannot("", "a guest shares no file or directory with the host, and %s is to be mounted at %s", spec.Mounts[0].Source, spec.Mounts[0].Target)
	}
	if spec.Image == "" {
		return nil, h.Cannot("", "a container host takes images, and %s is a directory", spec.Rootfs)
	}
	disk, err := h.parts.disk(ctx, h, spec.Rootfs, spec.Image, func(string) {})
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
	if err := h.Confine(outside); err != nil {
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
		return h.Cannot("take one with systemd, as vm/stock or vm/trimmed", "its Docker does not run before a container is asked for")
	}
	return nil
}

// machineOf is the machine of an arm, without its disk.
func (h *Host) machineOf(ctx context.Context, path string, a arm) (vmm.Machine, error) {
	m := vmm.Machine{Agent: true, Code: a.code, Translations: Translations, CPUs: cmp.Or(a.cpus, h.CPUs(driver.Limits{})), Memory: cmp.Or(a.memory, h.lab.Guest.Memory, hostMemory)}
	if err := h.Affordable(m.Memory); err != nil {
		return m, err
	}
	var err error
	if m.Accel, err = h.Acceleration(ctx, path); err != nil {
		return m, err
	}
	if a.code != "" {
		m.Accel = vmm.TCG // which alone sees the guest's code
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
		m.Append = append(append(m.Append, "root=/dev/vda", "rw"), vm.UnitsReported...)
	default:
		m.Append = append(m.Append, "root=/dev/vda", "rw", "init="+hostAgent, "tare_host=1")
	}
	if h.lab.Guest.Append != "" {
		m.Append = append(m.Append, h.lab.Guest.Append)
	}
	return m, nil
}

// boot prepares a machine whose agent runs spec.
func (h *Host) boot(ctx context.Context, path string, m vmm.Machine, spec driver.Spec, dir string) (vm.Instance, error) {
	return h.Boot(ctx, vm.Boot{Path: path, Machine: m, Spec: spec, Dir: dir, Off: hostOff, Patience: patience(m)})
}

// patience is for machines that hang. One whose code is looked at is several times as slow.
func patience(m vmm.Machine) map[vmm.Mark]time.Duration {
	if m.Code == "" {
		return vm.SystemPatience
	}
	slow := maps.Clone(vm.SystemPatience)
	for mark := range slow {
		slow[mark] *= 4
	}
	return slow
}

// lastWords is the end of what a program said, for an error.
func lastWords(text []byte) string {
	s := strings.TrimSpace(string(text))
	return s[max(0, len(s)-500):]
}
