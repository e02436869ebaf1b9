package cli

import (
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/vmm"
)

// guestFlags are what the user asks of virtual machines.
func guestFlags(flags *pflag.FlagSet) {
	flags.String("kernel", "", "kernel of virtual machines: a bzImage, vmlinux or Image with virtio (default the distribution's for clouds, fetched once)")
	flags.String("guest-append", "", "further kernel parameters of virtual machines")
	flags.Var(&vmm.MemoryFlag{}, "guest-memory", "memory of virtual machines where the study sets no limit, as 1GiB (default 512MiB)")
	flags.Bool("guest-disk", false, "give virtual machines their root as a read-only disk, not as an initramfs")
	flags.String("guest-rootfs", "", "boot virtual machines from this root file system, with its systemd: a directory, an OCI image, a raw or qcow2 disk; each boot has a copy of its own")
	flags.Bool("guest-no-seccomp", false, "turn the own seccomp filters of virtual machine monitors off")
}

// guestOf reads the flags; a command without them has none set.
func guestOf(flags *pflag.FlagSet) driver.Guest {
	var g driver.Guest
	if flags.Lookup("guest-append") == nil {
		return g
	}
	text := func(name string) string { return flags.Lookup(name).Value.String() }
	if g.Kernel = text("kernel"); g.Kernel != "" {
		if path, err := filepath.Abs(g.Kernel); err == nil {
			g.Kernel = path
		}
	}
	if g.Rootfs = text("guest-rootfs"); g.Rootfs != "" {
		if path, err := filepath.Abs(g.Rootfs); err == nil {
			g.Rootfs = path
		}
	}
	g.Append = text("guest-append")
	if size, ok := flags.Lookup("guest-memory").Value.(*vmm.MemoryFlag); ok {
		g.Memory = size.Bytes
	}
	g.Disk = text("guest-disk") == "true"
	g.NoSeccomp = text("guest-no-seccomp") == "true"
	return g
}

// resumedGuest is what a run asked of virtual machines, with what the flags say
// otherwise; what they say alone where the run does not tell.
func resumedGuest(flags *pflag.FlagSet, began *driver.Guest) driver.Guest {
	now := guestOf(flags)
	if began == nil {
		return now
	}
	g := *began
	if flags.Changed("kernel") {
		g.Kernel = now.Kernel
	}
	if flags.Changed("guest-append") {
		g.Append = now.Append
	}
	if flags.Changed("guest-memory") {
		g.Memory = now.Memory
	}
	if flags.Changed("guest-disk") {
		g.Disk = now.Disk
	}
	if flags.Changed("guest-rootfs") {
		g.Rootfs = now.Rootfs
	}
	if flags.Changed("guest-no-seccomp") {
		g.NoSeccomp = now.NoSeccomp
	}
	return g
}
