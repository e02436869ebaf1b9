// Package trim makes a kernel that holds what containers need and little else:
// it finds the source, lets the source's own Kconfig make the configuration,
// makes sure that what is wanted has survived that, and builds.
package trim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/kerneltools/kconfig"
)

// A Way is how a configuration is made.
type Way string

// The ways.
const (
	BottomUp Way = "bottom-up" // from nothing: allnoconfig and what is wanted
	TopDown  Way = "top-down"  // from a base, without its modules and what costs and no need reaches
)

// A Compression is how the kernel's image is packed.
type Compression string

// Compressions are all of them. None is an image as it lies in memory: of x86 an ELF
// file that a VMM starts by PVH, of arm64 the flat one. That of arm64 is packed by gzip alone.
var Compressions = []Compression{"none", "lz4", "zstd", "gzip", "xz"}

// symbol is the Kconfig symbol of a compression. The image without one is built
// beside the others, and its own way costs least to pack.
func (c Compression) symbol() string {
	if c == "none" {
		return "KERNEL_LZ4"
	}
	return "KERNEL_" + strings.ToUpper(string(c))
}

// A Machine is a virtual machine that kernels are made for.
type Machine struct {
	Name   string // of the target, as qemu/microvm
	Need   string // what a kernel needs to start on it
	Arch   Arch   // "" of those that are of several; MachineOf gives this machine's own
	packed bool   // of x86: it loads a bzImage
	elf    bool   // of x86: it loads an ELF image
}

// Machines are all of them.
var Machines = []Machine{
	{Name: "qemu/q35", Need: "virtio-pci", Arch: X86, packed: true, elf: true},
	{Name: "qemu/pc", Need: "virtio-pci", Arch: X86, packed: true, elf: true},
	{Name: "qemu/microvm", Need: "virtio-mmio", Arch: X86, packed: true, elf: true},
	{Name: "qemu/virt", Need: "virtio-pci", Arch: ARM64},
	{Name: "stratovirt/microvm", Need: "virtio-mmio", packed: true},
	{Name: "stratovirt/q35", Need: "virtio-pci", Arch: X86, packed: true},
	{Name: "stratovirt/virt", Need: "virtio-pci", Arch: ARM64},
	{Name: "firecracker", Need: "virtio-mmio", elf: true},
	{Name: "cloud-hypervisor", Need: "virtio-pci", packed: true, elf: true},
}

// MachineOf finds a machine by its name; the error of an unknown one names all.
func MachineOf(name string) (Machine, error) {
	var known []string
	for _, m := range Machines {
		if m.Name == name {
			m.Arch = cmp.Or(m.Arch, own())
			return m, nil
		}
		known = append(known, m.Name)
	}
	return Machine{}, fmt.Errorf("no virtual machine %q: there are %s", name, strings.Join(known, ", "))
}

// Pack is the compression that is asked for, or, for "", the one that the machine
// starts from soonest. One that makes an image that the machine does not load is
// an error.
func (m Machine) Pack(asked Compression) (Compression, error) {
	switch {
	case m.Arch == ARM64 && (asked == "" || asked == "none"):
		return "none", nil
	case m.Arch == ARM64 && asked != "gzip":
		return "", fmt.Errorf("a kernel of arm64 is packed with gzip or not at all, and not with %s: leave --compression out", asked)
	case m.Arch == ARM64:
		return asked, nil
	case asked == "" && m.packed:
		return "lz4", nil
	case asked == "":
		return "none", nil
	case asked == "none" && !m.elf:
		return "", fmt.Errorf("%s loads a bzImage, and no ELF image: leave out --compression none", m.Name)
	case asked != "none" && !m.packed:
		return "", fmt.Errorf("%s loads an ELF image, and no bzImage packed with %s: leave --compression out, or say none", m.Name, asked)
	}
	return asked, nil
}

// Options say which kernel is made.
type Options struct {
	Source      string          // the kernel's source tree
	Arch        Arch            //
	Wants       []kconfig.Want  // all that must be in it
	Way         Way             //
	Base        *kconfig.Config // top-down: from where
	Compression Compression     //
	Build       string          // where objects are kept: a second build there takes what is there
	Output      string          // where the results are put
	Initrd      bool            // Initramfs is put there as well; the kernel must be made to take one
	Jobs        int             // at once
}

// Check refuses options that no build can follow. based says that there is or
// will be a base.
func (o *Options) Check(based bool) error {
	switch {
	case ports[o.Arch].goarch == "":
		return fmt.Errorf("no architecture %q: there are %s and %s", o.Arch, X86, ARM64)
	case o.Initrd && o.Arch.foreign():
		return fmt.Errorf("the initramfs has this machine's busybox, which is not for %s: leave it out", o.Arch)
	case o.Way != BottomUp && o.Way != TopDown:
		return fmt.Errorf("no way %q: there are %s and %s", o.Way, BottomUp, TopDown)
	case o.Way == TopDown && !based:
		return fmt.Errorf("top-down starts from a configuration: name one with --base")
	case o.Way == BottomUp && based:
		return fmt.Errorf("bottom-up starts from nothing: --base goes with --way top-down")
	case !slices.Contains(Compressions, o.Compression):
		return fmt.Errorf("no compression %q: there are %v", o.Compression, Compressions)
	case o.Jobs < 1:
		return fmt.Errorf("%d jobs at once: at least 1", o.Jobs)
	}
	return nil
}
