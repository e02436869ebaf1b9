// Package bundle says what a container is in the words of the OCI runtime
// specification, with Docker's defaults: what the OCI family writes into its
// bundles, and what starts containers inside a machine.
package bundle

import (
	"cmp"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tarelab/tare/internal/driver"
)

// Capabilities are Docker's default set (moby, daemon/pkg/oci/caps/defaults.go).
var Capabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID",
	"CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
}

// MaskedPaths and ReadonlyPaths are Docker's (moby, daemon/pkg/oci/defaults.go).
var (
	MaskedPaths = []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
		"/sys/devices/virtual/powercap",
	}
	ReadonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// Namespaces are those of a Docker container, and the cgroup namespace that
// Docker gives on cgroup v2.
var Namespaces = []specs.LinuxNamespaceType{
	specs.PIDNamespace, specs.NetworkNamespace, specs.IPCNamespace, specs.UTSNamespace, specs.MountNamespace,
	specs.CgroupNamespace,
}

// CFSPeriod is the period of CPU quotas in microseconds: the kernel's default.
const CFSPeriod = 100_000

// Place is where a container is made.
type Place struct {
	Rootfs   string // its root file system, an absolute path
	Cgroup   string // its group, absolute in every tree; "" for the runtime's choice
	Hostname string
	Rootless bool // in a user namespace in which only root is mapped
}

// Config is the configuration of spec's container at a place, in all of
// Namespaces. Every runtime knows its version, 1.0.2, and nothing newer is used.
func Config(spec driver.Spec, at Place) *specs.Spec {
	c := &specs.Spec{
		Version:  "1.0.2",
		Hostname: at.Hostname,
		Root:     &specs.Root{Path: at.Rootfs},
		Mounts:   append(systemMounts(!at.Rootless), BindMounts(spec.Mounts)...),
		Process: &specs.Process{
			User: specs.User{UID: spec.User.UID, GID: spec.User.GID},
			Args: spec.Args, Env: spec.Env, Cwd: cmp.Or(spec.Cwd, "/"),
			Capabilities: capabilitiesOf(spec.User), NoNewPrivileges: true,
		},
		Linux: &specs.Linux{
			CgroupsPath: at.Cgroup,
			Resources:   resources(spec.Limits),
			MaskedPaths: MaskedPaths, ReadonlyPaths: ReadonlyPaths,
		},
	}
	for _, n := range Namespaces {
		c.Linux.Namespaces = append(c.Linux.Namespaces, specs.LinuxNamespace{Type: n})
	}
	return c
}

// capabilitiesOf gives root Docker's set, and another user the bound alone.
func capabilitiesOf(u driver.User) *specs.LinuxCapabilities {
	if u.UID != 0 {
		return &specs.LinuxCapabilities{Bounding: Capabilities}
	}
	return &specs.LinuxCapabilities{Bounding: Capabilities, Effective: Capabilities, Permitted: Capabilities}
}

// systemMounts are those of a Docker container. Without root the group tty (5)
// is not mapped, and devpts refuses it.
func systemMounts(root bool) []specs.Mount {
	terminals := []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}
	if root {
		terminals = append(terminals, "gid=5")
	}
	return []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: terminals},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"ro", "nosuid", "noexec", "nodev"}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}},
	}
}

// BindMounts are a spec's mounts.
func BindMounts(mounts []driver.Mount) []specs.Mount {
	var all []specs.Mount
	for _, m := range mounts {
		access := "rw"
		if m.ReadOnly {
			access = "ro"
		}
		all = append(all, specs.Mount{Destination: m.Target, Type: "bind", Source: m.Source, Options: []string{"rbind", "rprivate", access}})
	}
	return all
}

// resources maps limits, and denies devices but for those that every runtime
// allows by itself (null, zero, full, random, urandom, tty, ptmx).
func resources(l driver.Limits) *specs.LinuxResources {
	r := &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}}
	if l.Memory > 0 {
		r.Memory = &specs.LinuxMemory{Limit: &l.Memory}
	}
	if l.Pids > 0 {
		r.Pids = &specs.LinuxPids{Limit: &l.Pids}
	}
	if l.CPUs > 0 || l.CPUSet != "" || l.Mems != "" || l.Shares > 0 {
		r.CPU = &specs.LinuxCPU{Cpus: l.CPUSet, Mems: l.Mems}
	}
	if l.Shares > 0 {
		shares := uint64(l.Shares)
		r.CPU.Shares = &shares
	}
	if l.CPUs > 0 {
		period, quota := uint64(CFSPeriod), int64(l.CPUs*CFSPeriod)
		r.CPU.Period, r.CPU.Quota = &period, &quota
	}
	return r
}
