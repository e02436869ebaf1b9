package oci

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/target"
)

// capabilities are Docker's default set (moby, daemon/pkg/oci/caps/defaults.go).
var capabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID",
	"CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
}

// maskedPaths and readonlyPaths are Docker's (moby, daemon/pkg/oci/defaults.go).
var (
	maskedPaths = []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
		"/sys/devices/virtual/powercap",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// namespaces are those of a Docker container, and the cgroup namespace that
// Docker gives on cgroup v2.
var namespaces = []specs.LinuxNamespaceType{
	specs.PIDNamespace, specs.NetworkNamespace, specs.IPCNamespace, specs.UTSNamespace, specs.MountNamespace,
	specs.CgroupNamespace,
}

// cfsPeriod is the period of CPU quotas in microseconds: the kernel's default.
const cfsPeriod = 100_000

// writeBundle writes the config.json of spec into the bundle.
func (d *Driver) writeBundle(spec target.Spec, h home) error {
	trees, err := sys.Cgroups()
	if err != nil {
		return fmt.Errorf("find the cgroup hierarchies: %w", err)
	}
	data, err := json.Marshal(d.config(spec, h, cgroupsPath(spec, trees)))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(h.bundle(), "config.json"), data, 0o600)
}

// config is spec as the OCI runtime specification says it.
func (d *Driver) config(spec target.Spec, h home, group string) *specs.Spec {
	cwd := spec.Cwd
	if cwd == "" {
		cwd = "/"
	}
	return &specs.Spec{
		// Every runtime here knows 1.0.2, and nothing newer is used.
		Version:  "1.0.2",
		Hostname: spec.ID,
		Root:     &specs.Root{Path: h.rootfs()},
		Mounts:   append(systemMounts(d.lab.Root), sharedMounts(spec.Mounts)...),
		Process: &specs.Process{
			User: specs.User{UID: spec.User.UID, GID: spec.User.GID},
			Args: spec.Args, Env: d.environmentOf(spec), Cwd: cwd,
			Capabilities: capabilitiesOf(spec.User), NoNewPrivileges: true,
		},
		Linux: &specs.Linux{
			CgroupsPath: group,
			Resources:   resources(spec.Limits),
			Namespaces:  d.namespaces(spec.Join.Namespace),
			MaskedPaths: maskedPaths, ReadonlyPaths: readonlyPaths,
		},
	}
}

// environmentOf is the payload's environment: the spec's, and what the runtime
// demands.
func (d *Driver) environmentOf(spec target.Spec) []string {
	hasPath := slices.ContainsFunc(spec.Env, func(v string) bool { return strings.HasPrefix(v, "PATH=") })
	if hasPath || !d.runtime.DemandsPath {
		return spec.Env
	}
	return append(slices.Clone(spec.Env), usualPath)
}

// cgroupsPath is the payload's own group, below the part of the tree that this
// user may write. "" where there is none: runtimes do without.
func cgroupsPath(spec target.Spec, trees sys.Hierarchies) string {
	if spec.Cgroup == "" {
		return ""
	}
	root := "/"
	if tree, ok := trees.Unified(); ok && trees.Mode == sys.V2 {
		root = filepath.Join(root, tree.Root)
	}
	return filepath.Join(root, payloadGroup(spec))
}

// namespaces are those of the container, whose network is at a path where it
// joins one.
func (d *Driver) namespaces(network string) []specs.LinuxNamespace {
	var all []specs.LinuxNamespace
	for _, n := range namespaces {
		isNetwork := n == specs.NetworkNamespace
		given := isNetwork && network == "" && d.runtime.LoopbackDown
		if given || slices.Contains(d.runtime.Lacks, n) {
			continue
		}
		ns := specs.LinuxNamespace{Type: n}
		if isNetwork {
			ns.Path = network
		}
		all = append(all, ns)
	}
	return all
}

// capabilitiesOf gives root Docker's set, and another user the bound alone.
func capabilitiesOf(u target.User) *specs.LinuxCapabilities {
	if u.UID != 0 {
		return &specs.LinuxCapabilities{Bounding: capabilities}
	}
	return &specs.LinuxCapabilities{Bounding: capabilities, Effective: capabilities, Permitted: capabilities}
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

func sharedMounts(mounts []target.Mount) []specs.Mount {
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
func resources(l target.Limits) *specs.LinuxResources {
	r := &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}}
	if l.Memory > 0 {
		r.Memory = &specs.LinuxMemory{Limit: &l.Memory}
	}
	if l.Pids > 0 {
		r.Pids = &specs.LinuxPids{Limit: &l.Pids}
	}
	if l.CPUs > 0 || l.CPUSet != "" {
		r.CPU = &specs.LinuxCPU{Cpus: l.CPUSet}
	}
	if l.CPUs > 0 {
		period, quota := uint64(cfsPeriod), int64(l.CPUs*cfsPeriod)
		r.CPU.Period, r.CPU.Quota = &period, &quota
	}
	return r
}
