package oci

import "time"

// runsc is gVisor, a kernel in user space, with one driver for each way in which
// it catches system calls. The container's init is no process of the host: what
// tare waits for is the sandbox, which ends with the exit code of the container's
// init, or with 128+n when signal n killed that. With "--network none" its own
// network stack has a loopback; the default takes over the interfaces of the
// namespace, where it is down.
func runsc() []Runtime {
	var all []Runtime
	for n, platform := range []string{"systrap", "ptrace", "kvm"} {
		name := "runsc"
		if n > 0 {
			name += "/" + platform
		}
		all = append(all, Runtime{Name: name, Binary: "runsc", Remedy: "make tools",
			Flags: []string{"--platform", platform, "--network", "none"}, Platform: platform, SignalAsCode: true,
			StartTime: 200 * time.Millisecond, Order: 230 + n})
	}
	return all
}
