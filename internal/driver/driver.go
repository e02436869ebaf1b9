// Package driver is the seam between the laboratory and the places where a
// workload can run. It has the vocabulary (Spec, Watch, Exit, Facts), the two
// interfaces that every place implements, and the errors, which say whether the
// target or the laboratory failed. Each family of drivers is a sub-package. Only
// driver/all names the families.
//
// A trial calls Prepare, Instance.Start, Wait and Close, in this order. A driver
// that keeps something for the whole session is a SessionDriver: its Setup and
// Teardown are called before and after all trials. What else only some drivers
// offer is data in Properties, or an interface in optional.go, found by As.
package driver

import (
	"context"
	"time"

	"github.com/tarelab/tare/internal/sample"
)

// Driver is one place where a payload can run ("host", "runc", "qemu/microvm").
// All methods are safe for concurrent use.
type Driver interface {
	// Name is the driver's name in studies and reports: lower case, a variant
	// after a slash.
	Name() string
	// Properties are what is peculiar to the driver, as data. They do not change.
	Properties() Properties
	// Check proves by use that the driver works on this machine: it runs a
	// payload and gets its exit code back. Where the machine lacks something, the
	// error is a CannotError that names it and says what to install.
	Check(ctx context.Context) (Facts, error)
	// Prepare does all work that is not timed. dir is an existing empty directory
	// for this instance alone. The caller removes it after Close.
	Prepare(ctx context.Context, spec Spec, dir string) (Instance, error)
}

// Instance is one payload, which is prepared and then started once.
type Instance interface {
	// Watch lists what probes may read. It is valid from Prepare on; PIDs may
	// be 0 until Start has returned.
	Watch() []Watch
	// Start begins the timed part: it requests the payload's start and returns as
	// soon as the request is made. mark reports phases that only the driver can
	// see (a VMM's readiness, a kernel's first line), and the caller stamps them;
	// it may be called from several goroutines at once.
	// Cancelling ctx ends the payload and all its processes.
	Start(ctx context.Context, mark func(Phase)) error
	// Wait blocks until the payload has ended and returns how it ended. It returns
	// as early as it can; Close removes what is left. When ctx is cancelled, the
	// payload is killed and Wait returns ctx.Err() within 2 seconds.
	Wait(ctx context.Context) (Exit, error)
	// Close kills what still runs and removes all that Prepare and Start made.
	// It is idempotent and works after a failed Start.
	Close() error
}

// Phase names a moment in a trial's life.
type Phase string

// The phases that every target has; families add their own.
const (
	PhaseRequest Phase = "request"         // Start was called
	PhaseActed   Phase = "acted"           // the payload's own process acted inside the target
	PhaseExit    Phase = "exit"            // the payload had ended, as seen from outside; a driver whose Wait returns later marks it itself
	PhaseOff     Phase = sample.PoweredOff // the machine around the payload had powered off: the only phase that may follow exit
)

// The phases of an engine's start, as its client sees them.
const (
	PhaseSandboxed Phase = sample.Sandboxed // the engine has made the pod's sandbox: only pods have one
	PhaseCreated   Phase = sample.Created   // the engine has made the container
	PhaseStarted   Phase = sample.Started   // the engine reports that it runs
)

// The phases of the path attach, whose clock holds how a container is attached to its
// network.
const (
	PhaseDetached Phase = sample.Detached // it is on the network no more
	PhaseAttached Phase = sample.Attached // it is there again
)

// Properties are what tests and plans must know of a driver.
type Properties struct {
	Family      string        // "host", "native", "oci", "engine", "vm"
	NeedsRoot   bool          // cannot run without root at all
	Isolated    bool          // has a PID namespace of its own
	Boundary    Boundary      // what keeps a hostile payload from the machine
	Joins       Joining       // the kind of Spec.Join that it takes
	MaxParallel int           // instances that the contract suite starts at once (at least 4)
	StreamBytes int64         // bytes that the contract suite pushes through stdout (at least 8 MiB)
	ExactSignal bool          // Exit.Signal is known (else a signal appears as Code 128+n)
	StartTime   time.Duration // rough time of one start, for time-outs and plans
	Ports       int           // instances that its network takes at once; 0 for no such limit
	Order       int           // place in lists and ladders, lower is nearer to the host
	CheckTime   time.Duration // time of a Check beyond the usual: to start an engine first, to wait for other machines' proofs of KVM
	Calls       []string      // system calls after Linux 3.10 that the target's own program cannot do without, by the names that sys.HasCall takes
	AddsEnv     []string      // variables that the target adds to every payload's environment
	Footprint   Footprint     // what an instance uses besides its payload, where that is more than a bare container uses
	Networks    *Networks     // how its engine makes networks; nil for drivers that make none (JoinsOwn needs it)
	Machine     *Machine      // what a virtual machine offers besides running payloads; nil for other drivers
}

// Footprint is what one instance uses besides its payload and the launcher that every
// target has. The numbers are rough and rounded up. A plan that exceeds the machine
// by them is refused.
type Footprint struct {
	Tasks       int // processes and threads while it is alive: shim, monitor, client
	DaemonFiles int // descriptors that its engine's daemon keeps while it is alive
	Memory      int // bytes that it touches while it is alive, besides those of a shim and a container
	LabFiles    int // descriptors that tare keeps from Prepare on, besides streams and reports
}
