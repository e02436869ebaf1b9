// Package target is the seam between the laboratory and the places where a
// workload can run: the vocabulary (Spec, Watch, Exit, Facts), the two
// interfaces that every place implements, and the errors that say whose fault
// a failure is. Drivers live in one sub-package per family; only target/all
// names them.
package driver

import (
	"context"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
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

// BootTold is what a machine told of a boot.
type BootTold struct {
	Log []byte // in a form of tare boot profile
	// Symbols say where the code of its initcalls is, in JSON: bootlog.Origin by the
	// names of initcalls. Nil where no source of the kernel was at hand.
	Symbols []byte
}

// Hoster is a Driver whose machine has a Docker on which a payload can start
// containers itself: it takes a Spec that is Beside.
type Hoster interface {
	Driver
	// CheckHost proves that Docker, where Check does not.
	CheckHost(ctx context.Context) error
}

// What a payload beside the engine finds in its environment.
const (
	EnvImage = "TARE_IMAGE" // the engine's name of the image
	EnvTool  = "TARE_TOOL"  // the path of Spec.Tool on that machine
	EnvFlags = "TARE_FLAGS" // flags that each of its docker run takes, apart by blanks
)

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

// ProofOptions say which kernel is put to the proof, and how far.
type ProofOptions struct {
	Kernel      string // path of its file; "" for the driver's own, which is made where it is not kept
	Quick       bool   // without the checks that take longest
	UntilFailed bool   // not beyond the first check that fails
}

// ProofCheck is one check of a proof, and what came of it.
type ProofCheck struct {
	Name    string  `json:"check"`
	Result  string  `json:"result"`            // ProofPassed, or what went wrong: its first line, and what the machine said
	Seconds float64 `json:"seconds,omitempty"` // that it took, on the guest's clock; 0 where none is known
}

// ProofPassed is the result of a check that passed.
const ProofPassed = "ok"

// Passed reports whether the check did.
func (c ProofCheck) Passed() bool { return c.Result == ProofPassed }

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

// Phase names a moment in a trial's life.
type Phase string

// The phases that every target has; families add their own.
const (
	PhaseRequest Phase = "request" // Start was called
	PhaseActed   Phase = "acted"   // the payload's own process acted inside the target
	PhaseExit    Phase = "exit"    // the payload had ended, as seen from outside; a driver whose Wait goes on marks it itself
	PhaseOff     Phase = "off"     // the machine around the payload had powered off: the only phase that may follow exit
)

// The phases of an engine's start, as its client sees them.
const (
	PhaseCreated Phase = "created" // the engine has made the container
	PhaseStarted Phase = "started" // the engine says that it runs
)

// Spec is what a target is asked to run.
type Spec struct {
	ID     string   // unique on the machine, made of [a-z0-9-], starts with Label
	Rootfs string   // absolute path of the shared root file system; drivers never write to it, the payload's writes go to a private overlay
	Image  string   // the OCI image layout that Rootfs was unpacked from, for engines, which start images; "" where there is none
	Args   []string // argv; Args[0] is an absolute path inside Rootfs
	Env    []string // KEY=VALUE, complete: nothing is inherited
	Cwd    string   // absolute inside Rootfs; "" means "/"
	User   User     // zero value: root inside the target
	Limits Limits   // zero value: none
	Opens  []string // files of Rootfs that the payload's start looks up, absolute: a target that makes a root before the clock looks them up there, so that the clock does not time what is new only because the laboratory has just made it
	Mounts []Mount  // host files or directories that the payload shares
	Stdio  Stdio    // the payload's standard streams; known before the clock starts, so that handing them over costs nothing inside it
	// Join says which network the payload is on, instead of the target's usual one.
	// Drivers take what their Properties say.
	Join Join
	// Peer is the argv of a second payload that the first one talks to; nil for
	// none. Network says what stands around the two. Only targets with a path, in
	// which one place is joined to another, take them. In both argvs PeerAddress
	// and PeerPort stand for where the peer listens.
	Peer []string
	// Beside has Args, whose first is a path that every machine has, run as root on
	// the machine of the target's Docker and not in a container: it starts them
	// itself. Env, Cwd, User, Limits and Opens are then not used. Hosters take it.
	Beside  bool
	Tool    string // path of a static program of this machine that a payload beside the engine calls; "" for none
	Disk    string // absolute directory inside Rootfs that must lie on a disk; "" for none. Where the target's root lies in memory, it mounts an empty disk of its own there
	Direct  bool   // that disk's accesses are to pass page caches by, the host's as well
	Network Network
	// PageReporting has a virtual machine's guest tell its VMM which pages are free,
	// and Mergeable the VMM offer the guest's memory to the host's KSM. Other targets
	// are as they are without.
	PageReporting, Mergeable bool
	// Cgroup is the instance's cgroup, relative to the root of each hierarchy
	// ("tare/<run>/<id>"), or "" where cgroups cannot be used. The caller has
	// made it and removes it. All processes of the instance are put below it:
	// the payload into Cgroup/payload, the runtime's own into Cgroup/runtime.
	Cgroup string
	// ClientCgroup is the group of the command-line clients of all instances of a
	// trial, where these are measured as one; the caller has made it and removes
	// it. "" has each client in a group of its own, Cgroup/client.
	ClientCgroup string
}

// Join is a network that was made for a payload; the zero value is none.
type Join struct {
	// Namespace is the path of a network namespace: the payload runs in it
	// (JoinsNamespace), or its machine does, whose link is Tap (JoinsTap).
	Namespace string
	Tap       string           // name of a tap device in Namespace
	Hardware  net.HardwareAddr // of the guest's link
	Gateway   netip.Addr       // of the guest's default route; invalid for none
	Network   string           // name of a network that the driver has made (Networker)
	// Address is the payload's own, with the length of its network: of the guest's
	// link, or in Network.
	Address netip.Prefix
	Publish string // port of the payload, of TCP and UDP, that the engine publishes on its host; "" for none
}

// Joining is how a driver puts payloads on a network.
type Joining string

// The ways; "" is none.
const (
	JoinsNamespace Joining = "namespace" // Join.Namespace
	JoinsTap       Joining = "tap"       // Join.Namespace, Tap, Hardware, Address, Gateway
	JoinsOwn       Joining = "own"       // Join.Network, Address, Publish: the driver is a Networker
)

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

// HostNetwork is the Join.Network of a payload on its engine's host.
const HostNetwork = "host"

// Mark is where the mark helper (helpers/mark.c) stands in every root file system:
// a laboratory's payloads are its arguments.
const Mark = "/.tare/mark"

// Label is the prefix of everything that tare makes on a machine: cgroups,
// container ids, namespaces, mounts' source names. Sweeping goes by it alone.
const Label = "tare"

// User is the identity of the payload inside the target.
type User struct {
	UID, GID uint32
}

// Mount is a bind mount from the host.
type Mount struct {
	Source   string // absolute path on the host
	Target   string // absolute path in the root file system; made when missing
	ReadOnly bool
}

// Limits bound a payload's resources; a zero field is no limit.
type Limits struct {
	CPUs   float64 // CPU time per wall time, as a CFS quota (2.5 = two and a half CPUs)
	CPUSet string  // list of CPUs ("0-1"), cpuset's syntax
	Memory int64   // bytes
	Pids   int64   // processes and threads
}

// Stdio are the payload's standard streams. Stdin nil is /dev/null. The driver
// hands them over byte-exact and closes none of them.
type Stdio struct {
	Stdin, Stdout, Stderr *os.File
}

// What stands in an argument for where the peer listens.
const (
	PeerAddress = "@peer"
	PeerPort    = "@port"
)

// Network says what stands between and around two ends. Zero values leave what
// the kernel has by default.
type Network struct {
	Containers int    // attached in all, the two ends among them; 0 is 2
	Neighbours string // what the ends' neighbour tables hold: "", "empty", "permanent", "learned"
	Chatter    bool   // the others send a little
	MTU        int    // bytes, of every link
	Offload    string // what is left to the links (net.Offload): "" for the kernel's own, "on", "off", "no-checksums", "no-tso", "no-gso"
	RPS        bool   // receive packet steering over all CPUs
	Limit      int    // of learned neighbours, for the whole machine (gc_thresh3); 0 leaves it
	Range      string // of addresses, as "10.213.0.0/16"
	Pin        string // of the two ends to CPUs: "" or "free", "apart", "same"
}

// Role says who a watched process or cgroup works for.
type Role string

// The roles that costs are split by.
const (
	RolePayload Role = "payload" // the container's own processes
	RoleRuntime Role = "runtime" // the OCI runtime, shim or VMM that belongs to this instance
	RoleClient  Role = "client"  // a command-line client
	RoleDaemon  Role = "daemon"  // an engine shared by instances
	RolePeer    Role = "peer"    // the other end of the payload's connection
	RoleRelay   Role = "relay"   // what copies between the two
	RoleShared  Role = "shared"  // a daemon of the user's own engine, by PID alone: what it and its descendants do may be for others
)

// Watch is something that a probe may read.
type Watch struct {
	Role   Role
	PID    int    // on the host; 0 while unknown
	Cgroup string // relative to each hierarchy's root; "" when none
	// Alone: the process PID by itself is meant, which shares Cgroup with others.
	// What it used is no part of what another Watch of the same Cgroup used.
	Alone bool
	// GuestMemory is the size of a virtual machine's memory in bytes, which its
	// VMM maps; 0 for what is no VMM.
	GuestMemory int64
	// Network is the path of the network namespace that was made for it; "" when
	// there is none of the laboratory's.
	Network string
}

// Exit is how a payload ended.
type Exit struct {
	Code   int    // exit code; meaningless when Signal != 0
	Signal int    // the signal that killed it, else 0
	Usage  *Usage // of the payload and what it waited for; nil where the target cannot tell
}

// Usage is resource use as getrusage(2) counts it.
type Usage struct {
	User, System        time.Duration
	MaxRSS              int64 // bytes
	MinorFaults         int64
	MajorFaults         int64
	VoluntarySwitches   int64
	InvoluntarySwitches int64
}

// Facts are what Check found out.
type Facts struct {
	Version string            `json:"version"`          // of the runtime, VMM or engine, as it says itself
	Path    string            `json:"path"`             // of its binary or socket
	Digest  string            `json:"digest,omitempty"` // sha256 of the binary, "" where there is none
	Notes   map[string]string `json:"notes,omitempty"`  // further facts: "platform": "systrap", "accel": "tcg"
}

// The notes of virtual machines that decide whether numbers may be compared.
const (
	NoteAccel       = "accel"         // "kvm", or "tcg" where the guest's CPU is emulated
	NoteNoKVM       = "no-kvm"        // why it is not KVM
	NoteGuestKernel = "kernel-digest" // of the guest's kernel
)

// NoteDirect is the key of Facts.Notes for what a target's own disk does with accesses
// that are to pass page caches by (Spec.Direct).
const NoteDirect = "direct-io"

// NoteUnread is the key of Facts.Notes for what of a target's CPU time nobody can
// read: of a user's own engine, all that is in no group of tare's.
const NoteUnread = "unread"

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
}

// Footprint is what one instance takes beside its payload and the launcher that
// every target has. Plans are refused by it; rough and rounded up.
type Footprint struct {
	Tasks       int // processes and threads while it is alive: shim, monitor, client
	DaemonFiles int // descriptors that its engine's daemon keeps while it is alive
	Memory      int // bytes that it touches while it is alive, beside a shim's and a container's own
	LabFiles    int // descriptors that tare keeps from the preparation on, beside streams and reports
}

// Lab is what drivers get from the laboratory: where things are.
type Lab struct {
	LaunchPath string // the static launcher (helpers/launch.c) on the host
	MarkPath   string // the static mark helper (helpers/mark.c) on the host
	InitPath   string // the first process of guests (helpers/init.c) on the host
	TestRootfs string // a small root file system (busybox and /.tare/mark) for Check
	TestImage  string // the OCI image layout that TestRootfs was unpacked from; "" where there is none
	RunDir     string // a directory for private state (engines' roots, sockets) of this process
	// VolatileDir is a directory of this process, in memory where the user may mount
	// one, as /run is: for what a runtime keeps while its container lives. "" where
	// there is none.
	VolatileDir string
	ToolDirs    []string // directories searched for runtimes before PATH
	Root        bool     // effective user is root, and may mount
	CacheDir    string   // what is kept between processes: kernels, initial file systems of guests
	Guest       Guest    // what the user asks of virtual machines
	// Cgroup is the session's group, relative to the root of each hierarchy, below
	// which drivers may make groups of their own; "" where cgroups cannot be used.
	Cgroup string
	// Sysctl changes settings of the whole machine, by their sysctl names, until
	// restore is called; nil where the user has not allowed it.
	Sysctl func(values map[string]string) (restore func() error, err error)
	// PrivateEngines: engines that run already are left alone.
	PrivateEngines bool
}

// Guest is what the user asks of virtual machines; the zero value leaves all of
// it to tare.
type Guest struct {
	Kernel string `json:"kernel,omitempty"` // path of a kernel; "" is the distribution's
	Append string `json:"append,omitempty"` // further kernel parameters
	Memory int64  `json:"memory,omitempty"` // bytes, where a payload has no limit; 0 is tare's default
	Disk   bool   `json:"disk,omitempty"`   // the root is a read-only disk under an overlay, instead of an initramfs
	// NoSeccomp turns VMMs' own filters of system calls off.
	NoSeccomp bool `json:"no-seccomp,omitempty"`
}

// String tells it in words.
func (g Guest) String() string {
	var parts []string
	if g.Kernel != "" {
		parts = append(parts, "kernel "+g.Kernel)
	}
	if g.Append != "" {
		parts = append(parts, "parameters "+strconv.Quote(g.Append))
	}
	if g.Memory > 0 {
		parts = append(parts, "memory "+units.BytesSize(float64(g.Memory)))
	}
	if g.Disk {
		parts = append(parts, "root as a disk")
	}
	if g.NoSeccomp {
		parts = append(parts, "monitors without seccomp filters")
	}
	if len(parts) == 0 {
		return "nothing beside tare's defaults"
	}
	return strings.Join(parts, ", ")
}
