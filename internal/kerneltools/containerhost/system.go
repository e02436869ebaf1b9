package containerhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/vm"
	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/vmm"
)

// System is a root file system of the user's, with systemd, in which errands are run.
type System struct {
	Kernel vmm.Stock // the kernel of guests: an errand's, where it names none
	Initrd string    // the initramfs that goes with it

	machine *vm.Driver
	lab     driver.Lab
	root    vm.System
	modules string // disk with the kernel's modules and its configuration; "" where it has none
}

// OpenSystem is the root file system of lab.Guest.Rootfs on a virtual machine of an
// architecture, as GOARCH has it, whose disks must have private copies. kernel is that of
// its guests: a path, a release, or "" for the distribution's. A root file system that none
// can boot is a *RootError.
func OpenSystem(ctx context.Context, lab driver.Lab, arch, machine, kernel string) (s *System, err error) {
	s = &System{lab: lab}
	if s.machine, err = vm.Of(lab, arch, machine, kernel); err != nil {
		return nil, err
	}
	if s.Kernel, err = s.machine.GuestKernel(ctx); err != nil {
		return nil, err
	}
	if s.root, err = vm.SystemDisk(ctx, lab); err != nil {
		if errors.As(err, new(*driver.CannotError)) {
			err = &RootError{err}
		}
		return nil, err
	}
	var m vmm.Machine
	if err := s.machine.BootSystem(ctx, s.root, &m); err != nil {
		return nil, err
	}
	s.Initrd = m.Initrd
	if s.Kernel.Modules == "" {
		return s, nil
	}
	s.modules, err = s.modulesDisk(ctx)
	return s, err
}

// RootError is the reason why a root file system cannot be booted.
type RootError struct{ Err error }

func (e *RootError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *RootError) Unwrap() error { return e.Err }

// FileSystem is the type of the root: ext4, xfs or btrfs.
func (s *System) FileSystem() string { return s.root.Type }

// modulesDisk is what the root need not have: it may be a container's.
func (s *System) modulesDisk(ctx context.Context) (string, error) {
	name := vm.Digest("modules", s.Kernel.Modules, s.Kernel.Kernel.Digest) + ".ext4"
	return s.machine.Kept(name, func(file string) (err error) {
		tree, err := os.MkdirTemp(s.lab.RunDir, driver.Label+"-modules-")
		if err == nil {
			defer func() { err = errors.Join(err, sys.RemoveTree(tree)) }()
			err = sys.CopyTree(tree, s.Kernel.Modules)
		}
		if config := s.Kernel.Kernel.Config(); err == nil && config != "" {
			_, err = copyGiven(filepath.Join(tree, "config"), config)
		}
		var size int64
		if err == nil {
			size, err = image.TreeSize(tree)
		}
		if err == nil {
			err = image.Ext4Of(ctx, file, tree, size+size/4+64<<20) // and what depmod writes
		}
		if err != nil {
			return driver.Labf("disk with the kernel's modules: %w", err)
		}
		return nil
	})
}

// modulesScript gives a root that lacks them the modules of its kernel, on a disk that is
// named before it, and the device nodes whose opening loads one, as at its boot. A root
// without kmod can load none.
const modulesScript = `own=/lib/modules/$(uname -r)
if command -v kmod >/dev/null && [ ! -d "$own/kernel" ]; then
	mkdir -p "$own" && mount "$modules" "$own" && depmod || exit 125
	kmod static-nodes --format=tmpfiles --output=/run/tmpfiles.d/tare-nodes.conf &&
		systemd-tmpfiles --create --boot --prefix=/dev # which complains of groups that a small root lacks
fi
`

// Run runs an errand as ContainerHost.Run does: as root, in the system itself, once its
// multi-user.target was reached.
func (s *System) Run(ctx context.Context, e driver.Errand, tell func(string)) (driver.Ran, error) {
	path, err := s.machine.Locate()
	if err != nil {
		return driver.Ran{}, err
	}
	return runErrand(ctx, s.lab.RunDir, e, tell, func(files []vmm.Disk, code string) (outcome, error) {
		m, err := s.machineOf(ctx, path, e, files, code)
		if err != nil {
			return outcome{}, err
		}
		script := scriptOf(e)
		if e.Kernel == "" && s.modules != "" {
			script = "modules=" + device(len(m.Disks)-1) + "\n" + modulesScript + script
		}
		return once(ctx, s.lab.RunDir, func(ctx context.Context, spec driver.Spec, dir string) (vm.Instance, error) {
			return s.machine.Boot(ctx, vm.Boot{Path: path, Machine: m, Spec: spec, Dir: dir, Off: hostOff, Patience: patience(m)})
		}, script, tell)
	})
}

func device(disk int) string { return fmt.Sprintf("/dev/vd%c", 'a'+disk) }

// machineOf is the machine that an errand runs in. Its first disk is the root, its second
// that of files.
func (s *System) machineOf(ctx context.Context, path string, e driver.Errand, files []vmm.Disk, code string) (vmm.Machine, error) {
	m := vmm.Machine{Agent: true, Code: code, Translations: Translations, CPUs: s.machine.CPUs(driver.Limits{}), Memory: proofMemory,
		Disks: append([]vmm.Disk{{Path: s.root.Disk}}, files...), Append: append([]string{vm.InItself}, e.Append...), Accel: vmm.TCG}
	if err := s.machine.Affordable(m.Memory); err != nil {
		return m, err
	}
	var err error
	if code == "" { // else TCG: it alone sees the guest's code
		if m.Accel, err = s.machine.Acceleration(ctx, path); err != nil {
			return m, err
		}
	}
	if e.Kernel != "" {
		k, err := vmm.Inspect(e.Kernel)
		if err != nil {
			return m, driver.Labf("kernel to prove: %w", err)
		}
		return m, s.machine.BootSystemBy(ctx, s.root, k, &m)
	}
	if s.modules != "" {
		m.Disks = append(m.Disks, vmm.Disk{Path: s.modules})
	}
	return m, s.machine.BootSystem(ctx, s.root, &m)
}
