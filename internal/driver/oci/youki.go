package oci

import "time"

// youki is the runtime in Rust. Its foreground "run" can wait for ever in
// sigtimedwait after the container has ended (0.7.0: 2 of 25); tare runs every
// runtime detached and reaps the container itself, so that wait never happens. A container
// without PATH in its environment it refuses ("PATH environment variable is not
// set"). It does not bring the loopback of a new network namespace up (runc and
// crun do).
func youki() Runtime {
	return Runtime{Name: "youki", Binary: "youki", Remedy: "make tools", DemandsPath: true, LoopbackDown: true,
		StartTime: 20 * time.Millisecond, Order: 220}
}
