package vm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/vmm"
)

// System is a root file system of the user's, with an init of its own, as a disk.
type System struct {
	Disk      string // path of the raw image; nobody writes to it
	Partition string // that holds the root, as "1"; "" where the disk has no partitions
	Type      string // of the root's file system: one of systemTypes
	ID        string // changes with what it was made of: a directory's fingerprint, or a disk's size and time
}

// Device is the root as the guest names it, on the machine's disk of that index.
func (s System) Device(index int) string { return fmt.Sprintf("/dev/vd%c%s", 'a'+index, s.Partition) }

// systemTypes are the file systems of roots.
var systemTypes = []string{"ext4", "xfs", "btrfs"}

// systemRoom is what a system made of a directory may write, in bytes; what is not
// written takes no room.
const systemRoom = 4 << 30

// systemMemory is the memory of a guest with a system, where neither the user nor a
// limit says: what published comparisons give it.
const systemMemory = 1 << 30

// systemTime is about how long a system takes to its agent on an emulated CPU.
const systemTime = 15 * time.Second

// systemOff is how long a system may take to shut down.
const systemOff = 60 * time.Second

// SystemPatience is for systems that hang: their units start in their own time, and a
// busy host gives a boot a tenth of its CPUs.
var SystemPatience = map[vmm.Mark]time.Duration{
	vmm.MarkFirstByte: time.Minute, vmm.MarkKernel: time.Minute, vmm.MarkInit: 3 * time.Minute, vmm.MarkAgent: 5 * time.Minute,
}

// UnitsReported has systemd report its units in the kernel's log, whole names and to the
// end: what it shows on a console is cut, and ends where a login begins.
var UnitsReported = []string{"systemd.log_target=kmsg", "systemd.show_status=no", "printk.devkmsg=on"}

// SystemDisk is the disk of Guest.Rootfs. It is made, where it is not kept from before,
// of a directory or of a qcow2 image; a raw image is taken as it is. A rootfs that is
// none of them is a CannotError.
func SystemDisk(ctx context.Context, lab driver.Lab) (System, error) { return newHome(lab).system(ctx) }

// system is SystemDisk, looked up once in a process.
func (h *home) system(ctx context.Context) (System, error) {
	h.systems.Lock()
	defer h.systems.Unlock()
	if h.systemKnown.Disk != "" {
		return h.systemKnown, nil
	}
	s, err := h.systemOf(ctx, h.lab.Guest.Rootfs)
	if err == nil {
		h.systemKnown = s
	}
	return s, err
}

func (h *home) systemOf(ctx context.Context, rootfs string) (System, error) {
	cannot := func(err error) error {
		return &driver.CannotError{Target: "vm", Lacks: fmt.Sprintf("the root file system %s: %v", rootfs, err), Remedy: "give a directory, an OCI image, or a raw or qcow2 disk, with /sbin/init"}
	}
	info, err := os.Stat(rootfs)
	if err != nil {
		return System{}, cannot(err)
	}
	if info.IsDir() {
		return h.systemOfDirectory(ctx, rootfs)
	}
	packed, err := vmm.IsQcow2(rootfs)
	if err != nil {
		return System{}, cannot(err)
	}
	disk := rootfs
	if packed {
		if disk, err = h.unpackedDisk(ctx, rootfs, info); err != nil {
			return System{}, cannot(err)
		}
	}
	s, err := rootOf(ctx, disk)
	if err != nil {
		return s, cannot(err)
	}
	s.ID = versionOf(info)
	return s, nil
}

func (h *home) systemOfDirectory(ctx context.Context, dir string) (System, error) {
	name, err := image.Fingerprint(ctx, dir)
	if err != nil {
		return System{}, driver.Labf("root file system: %w", err)
	}
	disk, err := h.kept(Digest(name, dir)+".system.ext4", func(file string) error {
		size, err := image.TreeSize(dir)
		if err != nil {
			return err
		}
		return image.Ext4Of(ctx, file, dir, size+size/4+systemRoom)
	})
	if err != nil {
		return System{}, driver.Labf("root file system: %w", err)
	}
	return System{Disk: disk, Type: "ext4", ID: name}, nil
}

// versionOf is a disk's size and time, by which one that was written to is told.
func versionOf(info os.FileInfo) string { return fmt.Sprint(info.Size(), info.ModTime().UnixNano()) }

// unpackedDisk is a qcow2 image as a raw one, by the image's name, size and time.
func (h *home) unpackedDisk(ctx context.Context, file string, info os.FileInfo) (string, error) {
	return h.kept(Digest("qcow2", file, versionOf(info))+".system.raw", func(to string) error {
		return vmm.Unqcow2(ctx, to, file)
	})
}

// rootOf finds the root on a raw disk: all of it, or its largest partition with a file
// system of systemTypes.
func rootOf(ctx context.Context, disk string) (System, error) {
	s := System{Disk: disk}
	var err error
	if s.Type, err = fileSystem(ctx, disk, 0); err != nil || slices.Contains(systemTypes, s.Type) {
		return s, err
	}
	parts, err := partitions(ctx, disk)
	if err != nil {
		return s, err
	}
	var seen []string
	for _, p := range parts { // the largest first
		if s.Type, err = fileSystem(ctx, disk, p.start); err != nil {
			return s, err
		}
		if slices.Contains(systemTypes, s.Type) {
			s.Partition = p.number
			return s, nil
		}
		seen = append(seen, p.number+": "+cmp.Or(s.Type, "unknown"))
	}
	return s, fmt.Errorf("none of %s is found on it, neither on the whole disk nor on its partitions (%s)", strings.Join(systemTypes, ", "), cmp.Or(strings.Join(seen, ", "), "none"))
}

// fileSystem is what lies at an offset of a disk; "" where blkid knows none.
func fileSystem(ctx context.Context, disk string, offset int64) (string, error) {
	const nothing = 2 // blkid's exit code
	out, err := exec.CommandContext(ctx, "blkid", "--probe", "--offset", fmt.Sprint(offset), "--match-tag", "TYPE", "--output", "value", disk).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == nothing {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("blkid: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// partition is one of a disk's.
type partition struct {
	number      string
	start, size int64 // bytes
}

// partitions are a disk's, the largest first; none where it has no table.
func partitions(ctx context.Context, disk string) ([]partition, error) {
	out, err := exec.CommandContext(ctx, "sfdisk", "--json", disk).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("sfdisk, which reads a disk's partitions: %w (apt-get install fdisk)", err)
	}
	return parsePartitions(out, disk)
}

// parsePartitions reads what sfdisk prints of a disk.
func parsePartitions(text []byte, disk string) ([]partition, error) {
	var found struct {
		Table struct {
			Sector     int64 `json:"sectorsize"`
			Partitions []struct {
				Node  string `json:"node"`
				Start int64  `json:"start"`
				Size  int64  `json:"size"`
			} `json:"partitions"`
		} `json:"partitiontable"`
	}
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, fmt.Errorf("sfdisk: %w", err)
	}
	sector := cmp.Or(found.Table.Sector, 512)
	var all []partition
	for _, p := range found.Table.Partitions {
		number := strings.TrimPrefix(strings.TrimPrefix(p.Node, disk), "p") // a p comes behind a digit
		all = append(all, partition{number, p.Start * sector, p.Size * sector})
	}
	slices.SortStableFunc(all, func(a, b partition) int { return cmp.Compare(b.size, a.size) })
	return all, nil
}

// BootSystem gives a machine of a system the kernel that this VMM's guests have, and an
// initramfs that gives the machine to the init of that system, the machine's first disk.
func (d *Driver) BootSystem(ctx context.Context, s System, m *vmm.Machine) error {
	g, err := d.home.kernelFor(ctx, d)
	if err != nil {
		return err
	}
	if err := d.mounts(g, s); err != nil {
		return err
	}
	g.wanted = append(slices.Concat(g.wanted, m.Modules()), s.Type)
	m.Kernel = g.kernel
	m.Append = slices.Concat(parameters(s.parameters(0)), m.Append)
	m.Initrd, err = d.home.initramfs(ctx, g, "", "")
	return err
}

// BootSystemBy is BootSystem with a kernel that has all it needs built in and gets no
// initramfs, as tare trim build makes them: it mounts a small disk with the agent, which
// becomes the machine's last one. A kernel that the VMM does not load is an error.
func (d *Driver) BootSystemBy(ctx context.Context, s System, k vmm.Kernel, m *vmm.Machine) (err error) {
	if m.Kernel, err = d.vmm.Kernel(ctx, k, filepath.Join(d.home.dir, "kernels")); err != nil {
		return err
	}
	agent, err := d.home.agentDisk(ctx)
	if err != nil {
		return err
	}
	own := []string{fmt.Sprintf("root=/dev/vd%c", 'a'+len(m.Disks)), "ro", "rootfstype=ext4", "init=/.tare/init"}
	m.Append = slices.Concat(parameters(own), s.parameters(0), m.Append)
	m.Disks = append(m.Disks, vmm.Disk{Path: agent, ReadOnly: true})
	return nil
}

// InItself has the payload of a machine that boots a system see the system's own root.
const InItself = "tare_host=1"

// agentDisk is a file system with the agent and the directories that it mounts upon.
func (h *home) agentDisk(ctx context.Context) (string, error) {
	agent, err := os.ReadFile(h.lab.InitPath)
	if err != nil {
		return "", driver.Labf("the guest's agent: %w", err)
	}
	return h.kept(Digest("agent", string(agent))+".ext4", func(file string) error {
		tree, err := os.MkdirTemp(h.lab.RunDir, driver.Label+"-agent-")
		if err != nil {
			return driver.Labf("disk with the agent: %w", err)
		}
		defer os.RemoveAll(tree)
		for _, dir := range []string{".tare", "dev", "proc", "sys", "system"} {
			err = errors.Join(err, os.Mkdir(filepath.Join(tree, dir), 0o755))
		}
		err = errors.Join(err, os.WriteFile(filepath.Join(tree, ".tare/init"), agent, 0o755))
		if err == nil {
			err = image.Ext4(ctx, file, tree)
		}
		if err != nil {
			return driver.Labf("disk with the agent: %w", err)
		}
		return nil
	})
}

// GuestKernel is the kernel that this VMM's guests have, with its modules.
func (d *Driver) GuestKernel(ctx context.Context) (vmm.Stock, error) {
	g, err := d.home.kernelFor(ctx, d)
	return vmm.Stock{Package: g.source, Kernel: g.of, Modules: g.modules}, err
}

// mounts refuses a kernel without the root's file system, as far as its configuration tells.
func (d *Driver) mounts(g guestKernel, s System) error {
	if lacks := g.of.Lacks([]string{strings.ToUpper(s.Type) + "_FS"}); len(lacks) > 0 {
		return d.Cannot("give a --kernel with "+lacks[0]+", as of tare trim build --needs tare-guest,systemd,"+s.Type, "kernel %s lacks %s, and the root file system is %s", g.kernel.Version, lacks[0], s.Type)
	}
	return nil
}

// parameters are those of a kernel that is to boot the system from the disk of that index.
// Nobody is there to answer what systemd asks at the first boot of an image.
func (s System) parameters(index int) []string {
	return append([]string{"loglevel=7", "net.ifnames=0", "systemd.mask=serial-getty@hvc0.service", "systemd.firstboot=no", "tare_system=" + s.Type + ":" + s.Device(index)}, UnitsReported...)
}

// withSystem has a machine boot the user's system from a copy of its own: its agent is
// then a service of that system, and the machine's root what payloads see.
func (d *Driver) withSystem(ctx context.Context, dir string, g *guestKernel, m *vmm.Machine) error {
	s, err := d.home.system(ctx)
	if err != nil {
		return err
	}
	disk := filepath.Join(dir, "system.raw")
	if err := sys.CopySparse(ctx, disk, s.Disk); err != nil {
		return driver.Labf("disk of the guest: %w", err)
	}
	g.wanted = append(slices.Clone(g.wanted), s.Type)
	m.Append = append(m.Append, s.parameters(len(m.Disks))...)
	m.Disks = append(m.Disks, vmm.Disk{Path: disk, Own: true})
	return nil
}
