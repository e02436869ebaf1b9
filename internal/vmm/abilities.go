package vmm

import (
	"fmt"
	"slices"

	"github.com/tarelab/tare/internal/driver"
)

// Ability is what a VMM may offer besides booting a guest with read-only disks.
type Ability string

// The abilities, in the order of lists.
const (
	Emulating     Ability = "guests without KVM"
	SelfBooting   Ability = "boots from a disk alone"           // by its firmware and the disk's own loader
	PrivateCopies Ability = "private copies of disks"           // what a guest writes to a disk goes into a copy that the VMM makes
	Uncached      Ability = "disks past the host's page cache"  // Disk.Direct
	Restoring     Ability = "snapshot and restore"              // Machine.SaveTo and From
	Cloning       Ability = "shared memory of clones"           // guests restored from the same files share the memory that none of them has written to
	Reporting     Ability = "free page reporting"               // driver.Devices.PageReporting
	Ballooning    Ability = "memory balloon"                    // driver.Devices.Balloon
	Plugging      Ability = "memory hotplug"                    // driver.Devices.Hotplug
	HugePages     Ability = "huge pages"                        // driver.Devices.HugePages
	Merging       Ability = "memory for KSM"                    // driver.Devices.Mergeable
	Threading     Ability = "a thread of its own for the disks" // driver.Devices.IOThread
	Vhost         Ability = "vhost-net"                         // driver.Devices.Vhost
	SharingFiles  Ability = "virtio-fs"                         // driver.Devices.VirtioFS
)

// Abilities are what a VMM offers, by its documentation, and as far as tare asks for it.
// Each ability is in one of the two.
type Abilities struct {
	Has   map[Ability]string // how
	Lacks map[Ability]string // why not
}

// Can reports whether the VMM has an ability.
func (v VMM) Can(a Ability) bool {
	_, has := v.Offers.Has[a]
	return has
}

// needs are the abilities that a machine takes.
func (m Machine) needs() []Ability {
	var all []Ability
	for _, n := range []struct {
		ability Ability
		needed  bool
	}{
		{SelfBooting, m.Alone != nil},
		{PrivateCopies, slices.ContainsFunc(m.Disks, func(d Disk) bool { return !d.ReadOnly && !d.Own })},
		{Restoring, m.SaveTo != "" || m.From != ""},
		{Reporting, m.Devices.PageReporting}, {Ballooning, m.Devices.Balloon > 0}, {Plugging, m.Devices.Hotplug > 0},
		{HugePages, m.Devices.HugePages}, {Merging, m.Devices.Mergeable}, {Threading, m.Devices.IOThread},
		{Vhost, m.Devices.Vhost}, {SharingFiles, m.Devices.VirtioFS || m.Share != ""},
	} {
		if n.needed {
			all = append(all, n.ability)
		}
	}
	return all
}

// cannot is a CannotError where the VMM lacks an ability that a machine takes, or the
// machine has two things that exclude each other.
func (v VMM) cannot(m Machine) error {
	for _, a := range m.needs() {
		if !v.Can(a) {
			return &driver.CannotError{Target: v.Name, Lacks: fmt.Sprintf("%s: %s", a, v.Offers.Lacks[a])}
		}
	}
	if m.Devices.Balloon >= m.Memory && m.Devices.Balloon > 0 {
		return &driver.CannotError{Target: v.Name, Lacks: fmt.Sprintf("a balloon of %d MiB takes all of a guest of %d MiB", mebibytes(m.Devices.Balloon), mebibytes(m.Memory))}
	}
	if m.Devices.Hotplug%memorySection != 0 {
		return &driver.CannotError{Target: v.Name, Lacks: fmt.Sprintf("memory is added in sections of %d MiB, and %d MiB is not a multiple of it", memorySection>>20, mebibytes(m.Devices.Hotplug))}
	}
	if m.SaveTo == "" && m.From == "" {
		return nil
	}
	d := m.Devices
	if m.NIC != nil || m.Share != "" || slices.ContainsFunc(m.Disks, func(d Disk) bool { return !d.ReadOnly }) {
		return &driver.CannotError{Target: v.Name, Lacks: "a guest that is saved and restored has no disk to write to, no network and no virtio-fs"}
	}
	if d.Balloon > 0 || d.Hotplug > 0 || d.HugePages {
		return &driver.CannotError{Target: v.Name, Lacks: "a guest that is saved and restored has no balloon, no hotplug and no huge pages"}
	}
	return nil
}

// memorySection is what kernels take memory in on x86 and arm64, in bytes.
const memorySection = 128 << 20
