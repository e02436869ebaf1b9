package driver

import (
	"context"
	"regexp"
)

// As finds an optional interface of a driver: T is one of those below, or a
// driver's own type. It looks at d first, then at what d decorates.
func As[T any](d Driver) (T, bool) {
	for d != nil {
		if t, ok := d.(T); ok {
			return t, true
		}
		decorator, ok := d.(Decorator)
		if !ok {
			break
		}
		d = decorator.Unwrap()
	}
	var none T
	return none, false
}

// Decorator is a Driver around another one.
type Decorator interface {
	Driver
	// Unwrap returns the inner driver, whose optional interfaces count as the
	// decorator's unless it implements them itself.
	Unwrap() Driver
}

// SessionDriver is a Driver that keeps something for the whole session: an engine
// that all of its instances use.
type SessionDriver interface {
	Driver
	// Setup starts the engine and gives it the image of spec, of which Rootfs and
	// Image are used. The laboratory calls it before the first trial, so that the
	// start-up is not charged to that trial. Check and Prepare do the same where
	// Setup was not called.
	Setup(ctx context.Context, spec Spec) error
	// Teardown stops what the driver started and removes what it made. The caller
	// has closed all instances. Teardown is idempotent, and drivers that share an
	// engine may each be torn down.
	Teardown() error
}

// ProgramSign stands in a target's name before what it is to use: the absolute path of
// a runtime's program (runc=/opt/new/runc), or of a machine's kernel, or a release of
// one (qemu/microvm=debian/6.1).
const ProgramSign = "="

var release = regexp.MustCompile(`^[a-z]+/[1-9][0-9]{0,2}\.[0-9]{1,3}$`)

// IsRelease reports whether a text names a release of a distribution's kernel, as
// debian/6.1. A file of that name is written ./debian/6.1.
func IsRelease(name string) bool { return release.MatchString(name) }

// Namer is a Driver that makes drivers by name which are in no fixed list, such as
// containerd/NAME for any runtime that containerd can start, runc=/PATH, or
// qemu/microvm=debian/6.1.
type Namer interface {
	Driver
	// Named returns the driver of that name. It is nil where the name belongs to
	// another driver, or where this machine has nothing of that name.
	Named(ctx context.Context, name string) Driver
}

// Sweeper is a Driver that makes things in the user's own engine, where no cgroup,
// mount or directory of the session leads to them.
type Sweeper interface {
	Driver
	// Sweep removes what a process that has ended made through this driver's
	// engine, as the notes in its Lab.RunDir list it. It returns one line for each
	// thing it did. A second call finds nothing, nor does another driver of the
	// same engine.
	Sweep(ctx context.Context, runDir string) ([]string, error)
}

// Hoster is a Driver whose machine has a Docker, with which a payload can start
// containers itself: it takes a Spec with Beside.
type Hoster interface {
	Driver
	// CheckHost proves that this Docker works, which Check does not.
	CheckHost(ctx context.Context) error
}

// Located is a Driver with a program of its own.
type Located interface {
	Driver
	// Locate returns the program's path as it is found now. A Check that was made
	// with another program does not count any more.
	Locate() (string, error)
}

// Staler is a Driver whose Check depends on more than its program: on a running
// engine, on KVM.
type Staler interface {
	Driver
	// Stale reports whether the facts of an earlier Check may no longer hold.
	Stale(found Facts) bool
}

// Binder is a Driver whose instances are served by what is in no group of theirs: an
// engine of tare's own.
type Binder interface {
	Driver
	// Bind has that use these CPUs alone from now on, as cpuset writes them; "" is all
	// that tare may use. The user's own engine keeps the CPUs that it has.
	Bind(cpus string) error
}

// Controller is a Driver that can do verbs to its instances while they are alive.
type Controller interface {
	Driver
	// Verbs lists those that it has.
	Verbs() []Verb
	// Control makes a verb ready, outside the clock, for an instance of this driver
	// that was started. exec is what VerbExec runs; other verbs do not use it.
	Control(ctx context.Context, of Instance, verb Verb, exec Exec) (Act, error)
}
