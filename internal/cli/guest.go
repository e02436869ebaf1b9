package cli

import (
	"fmt"
	"path/filepath"

	"github.com/docker/go-units"
	"github.com/spf13/pflag"

	"github.com/tarelab/tare/internal/driver"
)

// guestFlags are what the user asks of virtual machines.
func guestFlags(flags *pflag.FlagSet) {
	flags.String("kernel", "", "kernel of virtual machines: a bzImage, vmlinux or Image with virtio (default the distribution's for clouds, fetched once)")
	flags.String("guest-append", "", "further kernel parameters of virtual machines")
	flags.Var(&bytesValue{}, "guest-memory", "memory of virtual machines where the study sets no limit, as 1GiB (default 512MiB)")
	flags.Bool("guest-disk", false, "give virtual machines their root as a read-only disk, not as an initramfs")
	flags.Bool("guest-no-seccomp", false, "turn the own seccomp filters of virtual machine monitors off")
}

// bytesValue is a flag that takes a size.
type bytesValue struct{ bytes int64 }

func (b *bytesValue) Type() string { return "size" }

func (b *bytesValue) String() string {
	if b.bytes == 0 {
		return ""
	}
	return units.BytesSize(float64(b.bytes))
}

// smallestGuest is less than any kernel for guests boots in.
const smallestGuest = 32 << 20

func (b *bytesValue) Set(text string) error {
	n, err := units.RAMInBytes(text)
	if err != nil {
		return fmt.Errorf("%q is no size: write 512MiB or 1GiB", text)
	}
	if n < smallestGuest {
		return fmt.Errorf("%q is too small for a guest: at least %s", text, units.BytesSize(smallestGuest))
	}
	b.bytes = n
	return nil
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
	g.Append = text("guest-append")
	if size, ok := flags.Lookup("guest-memory").Value.(*bytesValue); ok {
		g.Memory = size.bytes
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
	if flags.Changed("guest-no-seccomp") {
		g.NoSeccomp = now.NoSeccomp
	}
	return g
}
