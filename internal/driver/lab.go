package driver

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
