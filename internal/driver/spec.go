package driver

import (
	"os"
	"path"
)

// Spec is what a target is asked to run.
type Spec struct {
	ID     string // unique on the machine, made of [a-z0-9-], starts with Label
	Rootfs string // absolute path of the shared root file system; drivers never write to it, the payload's writes go to a private overlay
	Image  string // the OCI image layout that Rootfs was unpacked from, for engines, which start images; "" for none
	// Args, Env and Cwd are the payload's. Args[0] is an absolute path inside Rootfs.
	// Env holds KEY=VALUE and is complete: nothing is inherited. Cwd is absolute
	// inside Rootfs; "" means "/".
	Args   []string
	Env    []string
	Cwd    string
	User   User   // the zero value is root inside the target
	Limits Limits // the zero value is none
	// Opens are absolute paths of files in Rootfs that the payload's start opens. A
	// target that makes a root file system before the clock looks them up in it. The
	// clock then does not time lookups that are slow only because this root is new.
	Opens  []string
	Mounts []Mount // host files or directories that the payload shares
	Stdio  Stdio   // the payload's standard streams; known before the clock starts, so that handing them over costs nothing inside it
	// Console receives each line of the machine's console as it comes, maybe from several
	// goroutines at once; nil for none. Only machines that boot a system call it:
	// container hosts, and those with Guest.Rootfs.
	Console func(line string)
	// Join is the network of the payload, in place of the target's usual one.
	// Properties.Joins says what a driver takes.
	Join Join
	// Peer is the argv of a second payload that the first one talks to; nil for
	// none. Network describes the network around both. Only targets on a path take
	// them (package netpath). In both argvs PeerAddress and PeerPort are replaced by
	// the address and port at which the peer listens.
	Peer []string
	// Beside runs Args as root on the machine of the target's Docker, not in a
	// container, because this payload starts its containers itself. Args[0] is a
	// path that every machine has. Env, Cwd, User, Limits and Opens are not used.
	// Only a Hoster takes it.
	Beside bool
	Tool   string // path on this machine of a static program that a payload with Beside calls; "" for none
	// Disk is an absolute directory inside Rootfs that must lie on a disk; "" for
	// none. A target whose root lies in memory mounts an empty disk there.
	Disk    string
	Direct  bool // accesses to that disk bypass page caches, the host's too
	Network Network
	Devices Devices // of a virtual machine; other targets ignore them
	// Modules are what the payload uses of the kernel that may be a module of it, by
	// name. A guest's agent loads them first; on other targets the machine's kernel does.
	Modules []string
	// Cgroup is the instance's cgroup, relative to the root of each hierarchy
	// ("tare/<run>/<id>"), or "" where cgroups cannot be used. The caller makes and
	// removes it. All processes of the instance are below it: the payload in
	// Cgroup/payload, the runtime's own in Cgroup/runtime.
	Cgroup string
	// ClientCgroup is one cgroup for the command-line clients of all instances of a
	// trial, where these are measured together. The caller makes and removes it.
	// With "" each client has a group of its own, Cgroup/client.
	ClientCgroup string
}

// Group is the cgroup of a role in the instance's, or "" where cgroups cannot be used.
func (s Spec) Group(of Role) string {
	if s.Cgroup == "" {
		return ""
	}
	return path.Join(s.Cgroup, string(of))
}

// The environment of a payload with Spec.Beside.
const (
	EnvImage = "TARE_IMAGE" // the engine's name of the image
	EnvTool  = "TARE_TOOL"  // the path of Spec.Tool on that machine
	EnvFlags = "TARE_FLAGS" // flags for each docker run that it makes, separated by blanks
)

// Mark is the path of the mark helper (helpers/mark.c) in every root file system.
// The laboratory puts it before a payload's arguments.
const Mark = "/.tare/mark"

// Acted is what the mark helper writes to standard output, once, before it becomes the
// payload. A trial strips it from the stream.
const Acted = "\x00tare:acted\x00"

// Label is the prefix of everything that tare makes on a machine: cgroups,
// container ids, namespaces, mounts' source names. Sweeping relies on it alone.
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
	Mems   string  // list of NUMA nodes ("0"), the same syntax
	Shares int64   // weight of the CPU time next to others', as version 1's cpu.shares: 1024 is the default
	Idle   bool    // CPU time that nobody else wants (cpu.idle); the caller puts it, and Shares too, on Spec.Cgroup itself
	Memory int64   // bytes
	Pids   int64   // processes and threads
}

// Stdio are the payload's standard streams. Stdin nil is /dev/null. The driver
// hands them over byte-exact and closes none of them.
type Stdio struct {
	Stdin, Stdout, Stderr *os.File
}
