package driver

import (
	"context"
	"net/netip"
	"time"
)

// Closer is a Driver that holds something for as long as the session lasts: an
// engine, which it started when it was first needed. The caller closes it after
// all of its instances; Close is idempotent, and drivers that share what they
// hold may each be closed.
type Closer interface {
	Driver
	Close() error
}

// Raiser is a Driver whose engine is started, and given the image, when it is first
// needed. A run has it raised before its first trial, whose memory and time would
// else hold that.
type Raiser interface {
	Driver
	// Up sees that the engine runs and has the image of spec, of which Rootfs and Image
	// are used.
	Up(ctx context.Context, spec Spec) error
}

// Namer is a Driver beside which there are others that no list holds: any runtime
// that its engine can be told of.
type Namer interface {
	Driver
	// Named is the driver of that name, nil where the name is none of its own or this
	// machine has nothing that it could mean.
	Named(ctx context.Context, name string) Driver
}

// Sweeper is a Driver that makes things where no cgroup, mount or directory of the
// session tells of them: in an engine of the user's own.
type Sweeper interface {
	Driver
	// Sweep removes what a process that has ended had made by this driver and those
	// beside it, as the notes in its Lab.RunDir say, and says what it did, a line each.
	// A second call, or another driver's of the same engine, finds nothing.
	Sweep(ctx context.Context, runDir string) ([]string, error)
}

// Maker is a Driver whose parts take minutes to make: a disk, a kernel. They are
// made once and kept. A plan asks for them before it checks its targets; who only
// checks does not.
type Maker interface {
	Driver
	// Make makes what is not there yet. tell is told what is under way.
	Make(ctx context.Context, tell func(string)) error
}

// Profiled is a Driver that has had its machine tell all of a boot, initcalls and
// units among it: no trial's, because telling takes time.
type Profiled interface {
	Driver
	// BootLog is what it told; the zero value for nothing.
	BootLog(ctx context.Context) (BootTold, error)
}

// Hoster is a Driver whose machine has a Docker on which a payload can start
// containers itself: it takes a Spec that is Beside.
type Hoster interface {
	Driver
	// CheckHost proves that Docker, where Check does not.
	CheckHost(ctx context.Context) error
}

// Prover is a Driver that puts kernels to the proof that containers run.
type Prover interface {
	Driver
	// ProvesOn is the virtual machine that it boots them in, such as qemu/q35.
	ProvesOn() string
	// Proof is all that a kernel has to pass, for a digest.
	Proof() string
	// Prove boots a kernel once and says what came of each check, in their order. One
	// that does not boot, panics or hangs has failed the check in which it did, with
	// the last that it said: errors are the laboratory's, or a *CannotError.
	Prove(ctx context.Context, o ProofOptions, tell func(string)) ([]ProofCheck, error)
}

// Guested is a Driver of virtual machines.
type Guested interface {
	Driver
	// Takes says why its guests cannot have what the Spec's PageReporting and
	// Mergeable ask for, in a CannotError; nil where they can.
	Takes(ctx context.Context, pageReporting, mergeable bool) error
}

// Teller is an Instance that is a machine with a console.
type Teller interface {
	Instance
	// Tell has line called with each line of the console as it comes, from one
	// goroutine. It is called once, before Start.
	Tell(line func(string))
}

// Clocked is an Instance whose machine has a clock of its own.
type Clocked interface {
	Instance
	// Clock is what it told of its boot by that clock, by the names of metrics; nil
	// for nothing. It is asked when Wait has returned without an error.
	Clock() map[string]time.Duration
}

// Networker is a Driver whose engine makes networks.
type Networker interface {
	Driver
	// NetworkHost is the path of the network namespace of the engine's host, where
	// its bridges are.
	NetworkHost(ctx context.Context) (string, error)
	// MakeNetwork makes a bridge network of that name and range, with the range's
	// first address on the host, until remove is called.
	MakeNetwork(ctx context.Context, name string, of netip.Prefix) (remove func() error, err error)
	// Proxies tells whether the engine publishes a port for clients of the same
	// network by a process that copies.
	Proxies() bool
}
