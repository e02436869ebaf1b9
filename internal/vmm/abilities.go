package vmm

import (
	"fmt"
	"slices"
	"strings"

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

// AllAbilities are all of them, in the order of lists.
func AllAbilities() []Ability {
	return []Ability{Emulating, SelfBooting, PrivateCopies, Uncached, Restoring, Cloning,
		Reporting, Ballooning, Plugging, HugePages, Merging, Threading, Vhost, SharingFiles}
}

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

// AbilityTable are the abilities of all VMMs, an ability a row and a VMM a column, as a
// table in Markdown. Machines of one VMM whose words are the same share a column.
func AbilityTable() string {
	type column struct {
		names []string
		cells []string
	}
	var columns []column
	seen := map[string]bool{}
	for _, arch := range Architectures {
		for _, v := range For(arch) {
			if seen[v.Name] {
				continue
			}
			seen[v.Name] = true
			c := column{names: []string{"`" + v.Name + "`"}}
			for _, a := range AllAbilities() {
				if how, has := v.Offers.Has[a]; has {
					c.cells = append(c.cells, strings.TrimSuffix("yes: "+how, ": "))
				} else {
					c.cells = append(c.cells, "no: "+v.Offers.Lacks[a])
				}
			}
			i := slices.IndexFunc(columns, func(o column) bool { return slices.Equal(o.cells, c.cells) })
			if i < 0 {
				columns = append(columns, c)
			} else {
				columns[i].names = append(columns[i].names, c.names...)
			}
		}
	}
	var b strings.Builder
	b.WriteString("| |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", strings.Join(c.names, ", "))
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for i, a := range AllAbilities() {
		fmt.Fprintf(&b, "| %s |", a)
		for _, c := range columns {
			fmt.Fprintf(&b, " %s |", c.cells[i])
		}
		b.WriteString("\n")
	}
	return b.String()
}
