package driver

import "os"

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
	// Console receives each line of the machine's console as it comes, from one
	// goroutine; nil for none. Container hosts have a console, other targets never
	// call it.
	Console func(line string)
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
	// itself. Env, Cwd, User, Limits and Opens are then not used. Drivers that are a Hoster take it.
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

// What a payload beside the engine finds in its environment.
const (
	EnvImage = "TARE_IMAGE" // the engine's name of the image
	EnvTool  = "TARE_TOOL"  // the path of Spec.Tool on that machine
	EnvFlags = "TARE_FLAGS" // flags that each of its docker run takes, apart by blanks
)

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
