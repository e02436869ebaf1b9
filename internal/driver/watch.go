package driver

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
