package engine

import (
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
)

// labelKey is the label of all that is made in an engine; its value is the
// owner.
const labelKey = driver.Label + ".owner"

// owner is a name of this process that no other process ever has: its pid, its start
// time, its PID namespace and the boot, "1234-5678-4026531836-70c3114c". Things with the
// name of a process that has ended were left by a killed run.
func owner() string { return identify(os.Getpid()).String() }

// identity distinguishes a process from all others that had its pid.
type identity struct {
	pid       int
	start     uint64 // in ticks since the boot
	namespace uint64 // inode of its PID namespace
	boot      string // the beginning of the kernel's boot id
}

func (i identity) String() string {
	return fmt.Sprintf("%d-%d-%d-%s", i.pid, i.start, i.namespace, i.boot)
}

// identify is the identity that the process of that pid has, as seen from here: the
// pid and all but the start are this process's. The start is 0 where there is none.
func identify(pid int) identity {
	own := identity{pid: pid}
	var namespace unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &namespace) == nil {
		own.namespace = namespace.Ino
	}
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		own.boot, _, _ = strings.Cut(string(boot), "-")
	}
	if p, err := procfs.NewProc(pid); err == nil {
		if stat, err := p.Stat(); err == nil {
			own.start = stat.Starttime
		}
	}
	return own
}

// alive reports whether the process of that name may still run. A process from before
// the last boot does not. A process in another PID namespace, such as a tare in a
// container that shares the engine, cannot be seen from here and counts as alive. So
// does a text that is not such a name.
func alive(name string) bool {
	var i identity
	if n, err := fmt.Sscanf(name, "%d-%d-%d-%s", &i.pid, &i.start, &i.namespace, &i.boot); n != 4 || err != nil || i.String() != name {
		return true
	}
	switch now := identify(i.pid); {
	case i.boot != now.boot:
		return false
	case i.namespace != now.namespace:
		return true
	default:
		return i.start == now.start
	}
}

// repository is the name of images that an owner has loaded.
func repository(owner string) string { return "localhost/" + driver.Label + "-" + owner }
