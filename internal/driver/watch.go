package driver

import "github.com/tarelab/tare/internal/sample"

// Role is what a watched process or cgroup does for the trial.
type Role string

// The roles that costs are split by.
const (
	RolePayload Role = "payload" // the container's own processes
	RoleRuntime Role = "runtime" // the OCI runtime, shim or VMM that belongs to this instance
	RoleClient  Role = "client"  // a command-line client
	RoleDaemon  Role = "daemon"  // an engine that instances share
	RolePeer    Role = "peer"    // the other end of the payload's connection
	RoleRelay   Role = "relay"   // a process that copies between the two
	RoleShared  Role = "shared"  // a daemon of the user's own engine, by PID alone: it and its descendants may work for others too
)

// GuestMemoryFile is the name of a file that a VMM maps as its guest's memory.
const GuestMemoryFile = "guest-memory"

// Watch is something that a probe may read.
type Watch struct {
	Role   Role
	PID    int    // on the host; 0 while unknown
	Cgroup string // relative to each hierarchy's root; "" when none
	// Alone means the process PID by itself, although it shares Cgroup with others.
	// Its use does not count for other Watches of the same Cgroup.
	Alone bool
	// GuestMemory is the size in bytes of the guest's memory, which the VMM maps; 0
	// where the process is not a VMM.
	GuestMemory int64
	// Saved is the absolute path of the directory with the saved guest that the VMM
	// restored; "" for none. Instances may share one.
	Saved string
	// Network is the path of the network namespace that the laboratory made for it;
	// "" for none.
	Network string
	// Counts reads what a path has around its two ends, when the payloads have ended;
	// nil for nothing. A Watch may have it alone.
	Counts func() ([]sample.Value, error)
}
