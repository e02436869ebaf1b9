package lab

import (
	"errors"
	"path"
	"strings"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// groups makes and removes the cgroups of a session's instances.
type groups struct {
	trees   sys.Hierarchies
	session string
}

// groupName is the cgroup of a session, relative to each hierarchy's root.
func groupName(session string) string { return path.Join(driver.Label, session) }

func newGroups(session string) (*groups, error) {
	trees, err := sys.Cgroups()
	return &groups{trees: trees, session: groupName(session)}, err
}

// Make makes the group of one instance, in every tree: a runtime that makes the
// payload's below it in all of them need not make this one inside the clock. Its CPUs
// are those of all that works for the instance. Its weight counts among the session's
// groups, so it is put on the topmost one of id.
func (g *groups) Make(id string, of driver.Limits) (string, error) {
	if !g.trees.Usable() {
		return "", nil
	}
	name := path.Join(g.session, id)
	if err := g.trees.Make(name); err != nil {
		return name, err
	}
	if g.trees.Binds(name) { // else the driver says so, or its engine can
		if err := g.trees.Apply(name, sys.Bounds{CPUSet: of.CPUSet, Mems: of.Mems}); err != nil {
			return name, err
		}
	}
	top, _, _ := strings.Cut(id, "/")
	return name, g.trees.Apply(path.Join(g.session, top), sys.Bounds{Shares: of.Shares, Idle: of.Idle})
}

// Remove ends what is left in an instance's group and removes it.
func (g *groups) Remove(id string) error {
	_, err := sys.RemoveCgroups(path.Join(g.session, id))
	return err
}

// close removes the session's own group.
func (g *groups) close() error {
	_, err := removeGroup(g.session)
	return err
}

// removeGroup ends and removes a session's group, and with the last one the
// group of all sessions. It tells how many processes it found there.
func removeGroup(name string) (killed int, err error) {
	killed, err = sys.RemoveCgroups(name)
	return killed, errors.Join(err, sys.RemoveEmptyCgroup(driver.Label))
}
