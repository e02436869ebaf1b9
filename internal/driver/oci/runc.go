package oci

import (
	"os"
	"time"
)

// runc is the reference runtime, and what engines start when not told otherwise.
func runc() Runtime {
	return Runtime{Name: "runc", Binary: "runc", Remedy: "tare setup installs it", Rootless: true,
		StartTime: 25 * time.Millisecond, Order: 200}
}

// runcSystemd asks systemd for the payload's group instead of making it: the
// cgroup driver "systemd" of engines and of Kubernetes.
func runcSystemd() Runtime {
	r := runc()
	r.Name, r.Flags, r.Systemd, r.Rootless = "runc/systemd", []string{"--systemd-cgroup"}, true, false
	r.StartTime, r.Order = 40*time.Millisecond, 205
	return r
}

// booted reports whether systemd is the first process: sd_booted(3).
func booted() bool {
	info, err := os.Lstat("/run/systemd/system")
	return err == nil && info.IsDir()
}
