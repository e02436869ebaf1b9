// Package driver is the seam between the laboratory and the places where a
// workload can run: the vocabulary (Spec, Watch, Exit, Facts), the two
// interfaces that every place implements, and the errors that say whose fault
// a failure is. Drivers live in one sub-package per family; only driver/all
// names them.
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
	// Properties are the driver's fixed quirks, as data.
	Properties() Properties
	// Check proves by use that the driver works on this machine: it runs a
	// payload and sees its exit code come back. It returns a CannotError where
	// the machine lacks something, naming it and what to install.
	Check(ctx context.Context) (Facts, error)
	// Prepare does all work that lies outside the clock. dir is an existing
	// empty directory for the instance alone; the caller removes it after Close.
	Prepare(ctx context.Context, spec Spec, dir string) (Instance, error)
}

// Instance is one payload, prepared, then started once.
type Instance interface {
	// Watch lists what probes may read. It is valid from Prepare on; PIDs may
	// be 0 until Start has returned.
	Watch() []Watch
	// Start is the timed edge: it asks for the payload's start and returns as
	// soon as the request is made. mark reports phases that the driver alone
	// can see (a VMM's readiness, a kernel's first line); the caller stamps
	// them. Cancelling ctx ends the payload and all that belongs to it.
	Start(ctx context.Context, mark func(Phase)) error
	// Wait blocks until the payload has ended and returns how. It returns as
	// early as it can: tearing down is Close's work. When ctx is cancelled the
	// payload is killed and Wait returns ctx.Err() within 2 seconds.
	Wait(ctx context.Context) (Exit, error)
	// Close ends what still runs and removes all that Prepare and Start made.
	// It is idempotent and works after a failed Start.
	Close() error
}

// Phase names a moment in a trial's life.
type Phase string

// The phases that every target has; families add their own.
const (
	PhaseRequest Phase = "request"         // Start was called
	PhaseActed   Phase = "acted"           // the payload's own process acted inside the target
	PhaseExit    Phase = "exit"            // the payload had ended, as seen from outside; a driver whose Wait goes on marks it itself
	PhaseOff     Phase = sample.PoweredOff // the machine around the payload had powered off: the only phase that may follow exit
)

// The phases of an engine's start, as its client sees them.
const (
	PhaseCreated Phase = sample.Created // the engine has made the container
	PhaseStarted Phase = sample.Started // the engine says that it runs
)

// Properties are a driver's quirks that tests and plans must know.
type Properties struct {
	Family      string        // "host", "native", "oci", "engine", "vm"
	NeedsRoot   bool          // cannot run without root at all
	Isolated    bool          // has a PID namespace of its own
	Joins       Joining       // the kind of Spec.Join that it takes
	MaxParallel int           // instances that the contract suite starts at once (at least 4)
	StreamBytes int64         // bytes that the contract suite pushes through stdout (at least 8 MiB)
	ExactSignal bool          // Exit.Signal is known (else a signal appears as Code 128+n)
	StartTime   time.Duration // rough time of one start, for time-outs and plans
	Ports       int           // instances that its network takes at once; 0 for no such limit
	Order       int           // place in lists and ladders, lower is nearer to the host
	CheckTime   time.Duration // what a Check may take beyond the usual: an engine that has to come up first, other machines' proofs of KVM
	AddsEnv     []string      // variables that the target adds to every payload's environment
	Footprint   Footprint     // what an instance takes beside its payload, where that is more than a bare container's
	Networks    *Networks     // how its engine makes networks; nil for drivers that make none (JoinsOwn needs it)
	Machine     *Machine      // what a virtual machine offers besides running payloads; nil for other drivers
}

// Footprint is what one instance takes beside its payload and the launcher that
// every target has. Plans are refused by it; rough and rounded up.
type Footprint struct {
	Tasks       int // processes and threads while it is alive: shim, monitor, client
	DaemonFiles int // descriptors that its engine's daemon keeps while it is alive
	Memory      int // bytes that it touches while it is alive, beside a shim's and a container's own
	LabFiles    int // descriptors that tare keeps from the preparation on, beside streams and reports
}
