package driver

// Facts are what Check found out.
type Facts struct {
	Version string            `json:"version"`          // of the runtime, VMM or engine, as it reports it
	Path    string            `json:"path"`             // of its binary or socket
	Digest  string            `json:"digest,omitempty"` // sha256 of the binary, "" where there is none
	Notes   map[string]string `json:"notes,omitempty"`  // further facts: "platform": "systrap", "accel": "tcg"
}

// The notes of virtual machines that decide whether numbers may be compared.
const (
	NoteAccel = "accel"  // "kvm", or "tcg" where the guest's CPU is emulated
	NoteNoKVM = "no-kvm" // why it is not KVM, or why no payload runs under it
	// NoteBootsTo is the mark at which boots end, as "init": the kernel comes up, and no
	// payload runs after it. Trials record the boot as far as it goes.
	NoteBootsTo     = "boots-to"
	NoteGuestKernel = "kernel-digest" // of the guest's kernel
	// NoteKernelFile is the digest of the file that the guest's kernel was made of: machine
	// types take other formats of one kernel, and share it.
	NoteKernelFile = "kernel-file"
	// NoteSystem tells the content of Guest.Rootfs from another one, also of the same path.
	NoteSystem = "system"
)

// NoteDirect is the key of Facts.Notes that says which page caches a target's disk
// bypasses with Spec.Direct.
const NoteDirect = "direct-io"

// NoteOldKernel is the key of Facts.Notes that lists what the kernel is too old for, each
// with what the target does instead, where that changes what is measured.
const NoteOldKernel = "old-kernel"

// NoteUnread is the key of Facts.Notes that lists processes whose CPU time nobody can
// read: those of the user's own engine that are in no cgroup of tare's.
const NoteUnread = "unread"
