package vmm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/driver"
)

// Ability is what a VMM may offer besides booting a guest.
type Ability string

// The abilities, in the order of lists.
const (
	Restoring Ability = "snapshot and restore"
	Cloning   Ability = "shared memory of clones" // guests restored from the same files share the memory that none of them has written to
)

// AllAbilities are all of them, in the order of lists.
func AllAbilities() []Ability { return []Ability{Restoring, Cloning} }

// Abilities are what a VMM offers, as its documentation says. Each ability
// is in one of the two.
type Abilities struct {
	Has   map[Ability]string // how
	Lacks map[Ability]string // why not
}

// restores is a CannotError where the VMM does not save and restore such a machine.
func (v VMM) restores(m Machine) error {
	if why, lacks := v.Offers.Lacks[Restoring]; lacks {
		return &driver.CannotError{Target: v.Name, Lacks: "snapshot and restore: " + why}
	}
	own := slices.ContainsFunc(m.Disks, func(d Disk) bool { return !d.ReadOnly })
	if own || m.NIC != nil {
		return &driver.CannotError{Target: v.Name, Lacks: "a guest that is saved and restored has no disk to write to and no network"}
	}
	return nil
}

// AbilityTable are the abilities of all VMMs, each once, as a table in Markdown.
func AbilityTable() string {
	var b strings.Builder
	b.WriteString("| target |")
	for _, a := range AllAbilities() {
		fmt.Fprintf(&b, " %s |", a)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(AllAbilities())) + "\n")
	seen := map[string]bool{}
	for _, arch := range Architectures {
		for _, v := range For(arch) {
			if seen[v.Name] {
				continue
			}
			seen[v.Name] = true
			fmt.Fprintf(&b, "| `%s` |", v.Name)
			for _, a := range AllAbilities() {
				if how, has := v.Offers.Has[a]; has {
					fmt.Fprintf(&b, " yes: %s |", how)
				} else {
					fmt.Fprintf(&b, " no: %s |", v.Offers.Lacks[a])
				}
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}
