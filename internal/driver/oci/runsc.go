package oci

import (
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// runsc is gVisor, a kernel in user space, with one driver for each way in which
// it catches system calls. The container's init is no process of the host: what
// tare waits for is the sandbox, which ends with the exit code of the container's
// init, or with 128+n when signal n killed that. With "--network none" its own
// network stack has a loopback; the default takes over the interfaces of the
// namespace, where it is down.
//
// Its sandbox and its gofer had 13 to 15 and 5 or 6 threads on a machine with two
// CPUs while a payload slept (/proc/PID/task during "tare weigh --on runsc -- sleep
// 8"), and a stub process for each of the payload's comes to that; of 1,000 that
// were held each took 13.0 MiB of what is available ("tare run density --on runsc
// --instances 1000 --blocks 1").
func runsc() []Runtime {
	var all []Runtime
	for n, platform := range []string{"systrap", "ptrace", "kvm"} {
		name := "runsc"
		if n > 0 {
			name += "/" + platform
		}
		all = append(all, Runtime{Name: name, Binary: "runsc", Remedy: "make tools",
			Flags: []string{"--platform", platform, "--network", "none"}, Platform: platform, SignalAsCode: true, Sandbox: true,
			Calls:     []string{sys.CallSeccomp, sys.CallMemfd},
			StartTime: 200 * time.Millisecond, Order: 230 + n,
			Footprint: driver.Footprint{Tasks: 32, Memory: 8 << 20}})
	}
	return all
}
