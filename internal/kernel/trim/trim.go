// Package trim makes a kernel that holds what containers need and little else:
// it finds the source, lets the source's own Kconfig make the configuration,
// makes sure that what is wanted has survived that, and builds.
package trim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/kernel/kconfig"
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

// Compressions are all of them. None is an ELF image that a VMM starts by PVH.
var Compressions = []Compression{"none", "lz4", "zstd", "gzip", "xz"}

// symbol is the Kconfig symbol of a compression. The image without one is built
// beside the others, and its own way costs least to pack.
func (c Compression) symbol() string {
	if c == "none" {
		return "KERNEL_LZ4"
	}
	return "KERNEL_" + strings.ToUpper(string(c))
}

// vmNeeds are the needs of the machines, by the beginning of a target's name.
var vmNeeds = []struct{ prefix, need string }{
	{"qemu/q35", "virtio-pci"}, {"qemu/pc", "virtio-pci"}, {"qemu/microvm", "virtio-mmio"},
	{"stratovirt", "virtio-mmio"}, {"firecracker", "virtio-mmio"}, {"cloud-hypervisor", "virtio-pci"},
}

// NeedOfVM is the need of a machine such as qemu/microvm.
func NeedOfVM(vm string) (string, error) {
	var known []string
	for _, v := range vmNeeds {
		if strings.HasPrefix(vm, v.prefix) {
			return v.need, nil
		}
		known = append(known, v.prefix)
	}
	return "", fmt.Errorf("no virtual machine %q: there are %s", vm, strings.Join(known, ", "))
}

// Options say which kernel is made.
type Options struct {
	Source      string          // the kernel's source tree
	Wants       []kconfig.Want  // all that must be in it
	Way         Way             //
	Base        *kconfig.Config // top-down: from where
	Compression Compression     //
	Build       string          // where objects are kept: a second build there takes what is there
	Output      string          // where the results are put
	Jobs        int             // at once
}

// Check refuses options that no build can follow. based says that there is or
// will be a base.
func (o *Options) Check(based bool) error {
	switch {
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
