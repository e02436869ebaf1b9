package driver

import (
	"context"
	"strconv"
	"strings"

	"github.com/docker/go-units"
)

// Machine is what a virtual machine offers besides running payloads.
type Machine struct {
	// Takes returns a CannotError where a guest with these limits cannot have these
	// devices, and nil where it can.
	Takes func(ctx context.Context, l Limits, d Devices) error
	// Memory is that of a guest with these limits, in bytes.
	Memory func(l Limits) int64
	// Forget removes the kept proofs of hardware acceleration, so that the next
	// Check makes them again.
	Forget func() error
	// Host is what a container host offers; nil for other machines.
	Host *ContainerHost
}

// Devices are what a virtual machine has besides what every guest has, and how its
// memory and its devices are served. The zero value is nothing of it.
type Devices struct {
	PageReporting bool  // the guest reports free pages, and the VMM gives them back
	Mergeable     bool  // the guest's memory is offered to the host's KSM
	HugePages     bool  // the guest's memory is of HugePage bytes a page, from the host's pool
	IOThread      bool  // a thread of the VMM serves the disks, and nothing else
	Vhost         bool  // the host's kernel moves the packets of the guest's link
	VirtioFS      bool  // Spec.Disk is a directory of the host's, by virtio-fs, and not a disk
	Balloon       int64 // bytes that are taken from the guest once its agent runs
	Hotplug       int64 // bytes of memory that are added then
}

// HugePage is the size of a huge page, in bytes.
const HugePage = 2 << 20

// ContainerHost is a virtual machine that boots Linux with a container engine, from
// a disk and a kernel that tare makes.
type ContainerHost struct {
	// Make makes the disk and the kernel where they are missing, and keeps them. It
	// takes minutes. A plan calls it before it checks its targets; tare check does
	// not. tell receives what is under way.
	Make func(ctx context.Context, tell func(string)) error
	// BootLog returns the log of a boot in which the kernel and systemd reported
	// every initcall and unit. That takes time, so it is never a trial's boot. The
	// zero value means that there is none.
	BootLog func(ctx context.Context) (BootLog, error)

	ProvesOn string // the virtual machine in which Prove boots kernels, such as qemu/q35
	Proof    string // the script that a kernel has to pass, for a digest
	// Prove boots a kernel once and returns the result of each check, in order. A
	// kernel that does not boot, panics or hangs has failed the check in which it
	// did, with its last words. Errors are the laboratory's, or a *CannotError.
	Prove func(ctx context.Context, o ProofOptions, tell func(string)) ([]ProofCheck, error)
	// Run boots the machine once, has it run a script as root once its engine is up, and
	// returns how it ended. A machine that ends early is a result too: Ran.Failed says why.
	// Errors are the laboratory's, or a *CannotError.
	Run func(ctx context.Context, e Errand, tell func(string)) (Ran, error)
}

// Errand is a script for a container host.
type Errand struct {
	Kernel string   // path of another kernel, which gets no initramfs; "" for the driver's own
	Append []string // kernel parameters
	Files  []string // paths of files of this machine, which the script finds by their names below FilesDir
	Script string   // of /bin/sh
	Code   bool     // the kernel's code is looked at: emulated, whatever the host can do
}

// FilesDir is where an errand's script finds its files.
const FilesDir = "/run/tare-files"

// Ran is how an errand ended.
type Ran struct {
	Text   []byte // what the script printed, at most limit.ErrandText
	Exit   Exit
	Off    bool     // the machine powered off in time
	Code   []uint64 // with Errand.Code: the address of each block of the kernel's code, in the order of their first runs
	Failed string   // why the machine ended early, with its last words; "" where it did not
}

// ContainerHost is what a container host offers; nil for other drivers.
func (p Properties) ContainerHost() *ContainerHost {
	if p.Machine == nil {
		return nil
	}
	return p.Machine.Host
}

// BootLog is what a machine reported of one boot.
type BootLog struct {
	Log []byte // in a form that tare boot profile reads
	// Symbols are the places in the source of the kernel's initcalls, in JSON:
	// bootlog.Origin by the initcall's name. Nil where the source is missing.
	Symbols []byte
}

// ProofOptions choose the kernel of a proof and how many checks are made.
type ProofOptions struct {
	Kernel      string // path of its file; "" for the driver's own, which is built where it is not kept
	Quick       bool   // skip the checks that take longest
	UntilFailed bool   // stop at the first check that fails
}

// ProofCheck is one check of a proof and its result.
type ProofCheck struct {
	Name    string  `json:"check"`
	Result  string  `json:"result"`            // ProofPassed, or what failed: the first line of the error, and the machine's last words
	Seconds float64 `json:"seconds,omitempty"` // its duration by the guest's clock; 0 where it is not known
}

// ProofPassed is the result of a check that passed.
const ProofPassed = "ok"

// Passed reports whether the check passed.
func (c ProofCheck) Passed() bool { return c.Result == ProofPassed }

// Guest is what the user asks of virtual machines. The zero value means tare's
// defaults.
type Guest struct {
	Kernel string `json:"kernel,omitempty"` // path of a kernel; "" is the distribution's
	Append string `json:"append,omitempty"` // further kernel parameters
	Memory int64  `json:"memory,omitempty"` // bytes, where a payload has no limit; 0 is tare's default
	Disk   bool   `json:"disk,omitempty"`   // the root is a read-only disk under an overlay, instead of an initramfs
	// Rootfs is the path of a root file system, with an init of its own, that machines
	// boot: a directory, or a raw or qcow2 disk. Payloads run beside what it starts. ""
	// is none: tare's agent is the first process.
	Rootfs string `json:"rootfs,omitempty"`
	// NoSeccomp turns off the VMMs' own filters of system calls.
	NoSeccomp bool `json:"no-seccomp,omitempty"`
}

// String describes it in words.
func (g Guest) String() string {
	var parts []string
	if g.Kernel != "" {
		parts = append(parts, "kernel "+g.Kernel)
	}
	if g.Append != "" {
		parts = append(parts, "parameters "+strconv.Quote(g.Append))
	}
	if g.Memory > 0 {
		parts = append(parts, "memory "+units.BytesSize(float64(g.Memory)))
	}
	if g.Disk {
		parts = append(parts, "root as a disk")
	}
	if g.Rootfs != "" {
		parts = append(parts, "the system of "+g.Rootfs)
	}
	if g.NoSeccomp {
		parts = append(parts, "monitors without seccomp filters")
	}
	if len(parts) == 0 {
		return "nothing beside tare's defaults"
	}
	return strings.Join(parts, ", ")
}
