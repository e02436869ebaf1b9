package driver

import "time"

// Lab is what drivers get from the laboratory: paths, rights and the user's wishes.
type Lab struct {
	LaunchPath string // the static launcher (helpers/launch.c) on the host
	MarkPath   string // the static mark helper (helpers/mark.c) on the host
	InitPath   string // the first process of guests (helpers/init.c) on the host
	TestRootfs string // a small root file system with /.tare/mark, for Check
	TestImage  string // the OCI image layout that TestRootfs was unpacked from; "" where there is none
	RunDir     string // a directory for private state (engines' roots, sockets) of this process
	// VolatileDir is a directory of this process for files that a runtime keeps while
	// its container lives. It is in memory, as /run is, where the user may mount such
	// a file system; "" for none.
	VolatileDir string
	ToolDirs    []string // directories searched for runtimes before PATH
	Root        bool     // effective user is root, and may mount
	CacheDir    string   // for files that later processes use again: kernels, initial file systems of guests
	Guest       Guest    // what the user asks of virtual machines
	// Cgroup is the session's cgroup, relative to the root of each hierarchy; "" where
	// cgroups cannot be used. Drivers may make groups below it.
	Cgroup string
	// Sysctl changes settings of the whole machine, by their sysctl names. restore
	// puts the old values back. Nil where the user has not allowed changes.
	Sysctl func(values map[string]string) (restore func() error, err error)
	// PrivateEngines: tare starts its own engines and does not use those that run.
	PrivateEngines bool
	// Peer is the other machine of paths between two; nil for none.
	Peer Peer
	// Slow is how many times longer than on a real CPU things take here; 0 is 1.
	Slow int
}

// AtMost is a limit of time on this machine, from what it is on a real CPU.
func (l Lab) AtMost(limit time.Duration) time.Duration { return limit * time.Duration(max(1, l.Slow)) }
