package oci

import "time"

// crun is the runtime in C. Release 1.8 refuses hybrid cgroups ("cgroups in
// hybrid mode not supported, drop all controllers from cgroupv2"), with any
// cgroup manager.
func crun() Runtime {
	return Runtime{Name: "crun", Binary: "crun", Remedy: "tare setup installs it", Rootless: true, Groupless: []string{"--cgroup-manager=disabled"},
		LogKind: "file:", HidesUnified: true, NoStats: true, StartTime: 10 * time.Millisecond, Order: 210}
}
