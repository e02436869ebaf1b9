package native

import (
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver/launch"
	"github.com/tarelab/tare/internal/sys"
)

// arm is the floor with one thing done in another way: taken out of the start,
// or put into it, to see whether a cost has that cause. The zero value is the
// floor itself.
type arm struct {
	name       string // of the driver
	attach     bool   // joins its version 2 group by cgroup.procs, instead of being born there
	controller string // joins this version 1 hierarchy too
	poolCgroup bool   // its groups are made before the clock
	poolNet    bool   // its network namespace is made before the clock
	warm       bool   // all of it is made before the clock, which has execve alone
	hostNet    bool   // it has none
	noIPv6     bool   // IPv6 is off in it
	mounts     int    // so many bind mounts more
}

// manyMounts is about what an engine mounts beside the root file system, twice:
// volumes, secrets, masked paths.
const manyMounts = 40

// arms are the interventions, in the order of lists.
var arms = []arm{
	{name: "native/attach", attach: true},
	{name: "native/one-controller", controller: "memory"},
	{name: "native/pool-cgroup", poolCgroup: true},
	{name: "native/pool-net", poolNet: true},
	{name: "native/pool", poolCgroup: true, poolNet: true},
	{name: "native/pool-container", warm: true},
	{name: "native/host-net", hostNet: true},
	{name: "native/no-ipv6", noIPv6: true},
	{name: "native/many-mounts", mounts: manyMounts},
}

// lacks says what cgroups an arm needs to differ from the floor; "" where it has
// them.
func (a arm) lacks(groups sys.Hierarchies) string {
	unified, v2 := groups.Unified()
	has := func(h sys.Hierarchy) bool { return h.Writable && h.Has(a.controller) }
	switch {
	case (a.attach || a.poolCgroup || a.controller != "") && !v2:
		return "cgroups of version 2"
	case a.attach && !sys.HasCall(sys.IntoCgroup):
		return "CLONE_INTO_CGROUP (Linux 5.7), without which the floor joins its group as well"
	case a.controller != "" && (unified.Has(a.controller) || !slices.ContainsFunc(groups.All, has)):
		return "the controller " + a.controller + " in a hierarchy of version 1, beside version 2"
	}
	return ""
}

// box makes the group box of the payload: before the clock where there is a pool,
// else inside it; and puts the payload there.
func (p *plan) box(tree sys.Hierarchy, group string) error {
	if err := tree.HandDown(path.Dir(group)); err != nil {
		return err
	}
	mkdir := launch.Mkdir(tree.Dir(group), 0o755)
	if p.arm.poolCgroup {
		p.pre(mkdir)
	} else {
		p.cfg.Go = append(p.cfg.Go, mkdir)
	}
	if tree.Version == 2 && !p.arm.attach && sys.HasCall(sys.IntoCgroup) {
		p.cfg.Into = tree.Dir(group)
	} else {
		p.child(launch.Join(tree.Dir(group)))
	}
	return nil
}

// network gives the payload its network namespace, whose loopback is up.
func (p *plan) network() {
	switch {
	case p.level < net:
	case p.arm.hostNet:
		p.cfg.Clone &^= unix.CLONE_NEWNET
	case p.arm.poolNet && p.spec.Join.Namespace == "":
		p.cfg.Clone &^= unix.CLONE_NEWNET
		p.pre(launch.Unshare(unix.CLONE_NEWNET), launch.Loopback())
	default:
		if p.arm.noIPv6 {
			// The file is that of the network namespace of who opens it.
			p.child(launch.Write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1"))
		}
		p.child(launch.Loopback())
	}
}

// moreMounts binds a directory to itself, again and again.
func (p *plan) moreMounts() {
	for range p.arm.mounts {
		p.child(launch.Enter("/etc"), launch.Mount(".", ".", "", unix.MS_BIND, ""))
	}
}
