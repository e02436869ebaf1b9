// Package launch drives helpers/launch.c, the one launcher on the host's side:
// a small static process that is started before the clock, enters its cgroups,
// sets up all that may be set up early, and then waits for one byte, which is
// the timed edge. It starts the payload, or (Reap) an OCI runtime, becomes the
// parent of the container that the runtime leaves behind, and reports how they
// ended.
package launch

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/tarelab/tare/internal/driver"
)

// Config says what to launch, and which steps lie on which side of the clock.
type Config struct {
	Launcher string       // path of helpers/launch.c's binary (driver.Lab.LaunchPath)
	Args     []string     // argv of the payload, or of the runtime; Args[0] is an absolute path as seen after all steps
	Env      []string     // complete environment, KEY=VALUE
	Stdio    driver.Stdio // descriptors 0, 1 and 2; the process inherits no others

	// Cgroup, relative to each hierarchy's root, is entered by the launcher
	// before the clock in every hierarchy that has it; what it starts
	// is born there. It must exist. "" stays in tare's own.
	Cgroup string

	Pre   []Step // done by the launcher before the clock, in order, after entering Cgroup
	Go    []Step // done by the launcher inside the clock, before the clone
	Child []Step // done by the new process inside the clock, before execve

	Clone uintptr // CLONE_NEW* flags of the new process
	Into  string  // cgroup v2 directory for CLONE_INTO_CGROUP, opened inside the clock; "" for none

	// Warm has all but execve done before the clock: Pre, Go, the clone and Child.
	Warm bool

	// Reap starts Args as an OCI runtime: the launcher is a subreaper, waits
	// for the runtime, reads the container's pid from PidFile and waits for
	// that too. Else Args is the payload.
	Reap    bool
	PidFile string // absolute path; with Reap only
}

// Result is how a launch ended.
type Result struct {
	Payload driver.Exit
	Runtime *driver.Exit // with Reap: the runtime's command
}

// Error is a step of the launcher that failed.
type Error struct {
	Step  string // the step's name in helpers/launch.c: "pivot_root", "exec"
	What  string // its object, a path mostly; may be ""
	Errno syscall.Errno
}

func (e *Error) Error() string {
	if e.What == "" {
		return fmt.Sprintf("%s: %v", e.Step, e.Errno)
	}
	return fmt.Sprintf("%s %s: %v", e.Step, e.What, e.Errno)
}

// Unwrap gives the errno, so that errors.Is(err, fs.ErrNotExist) works.
func (e *Error) Unwrap() error { return e.Errno }

// full reports whether the step found no room for a file, or for an overlay's own
// ones: the disk is the laboratory's. What has no room elsewhere is namespaces.
func (e *Error) full() bool {
	return (e.Errno == syscall.ENOSPC || e.Errno == syscall.EDQUOT) && slices.Contains([]string{"mount", "mkdir", "touch", "symlink"}, e.Step)
}

// RuntimeError says that an OCI runtime's command failed or left no pid file.
type RuntimeError struct {
	Name   string      // base name of the runtime's binary
	Exit   driver.Exit // how its command ended
	Reason string      // "left no pid file /x/pid" where it ended well; else ""
}

func (e *RuntimeError) Error() string {
	switch {
	case e.Reason != "":
		return e.Name + " " + e.Reason
	case e.Exit.Signal != 0:
		return fmt.Sprintf("%s was killed by signal %d (%v)", e.Name, e.Exit.Signal, syscall.Signal(e.Exit.Signal))
	}
	return fmt.Sprintf("%s exited with code %d", e.Name, e.Exit.Code)
}

// errKilled is what Wait returns after Kill where the launch never came to a
// payload.
var errKilled = errors.New("launch: killed before the payload ran")
