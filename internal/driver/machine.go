package driver

import (
	"strconv"
	"strings"

	"github.com/docker/go-units"
)

// Guest is what the user asks of virtual machines; the zero value leaves all of
// it to tare.
type Guest struct {
	Kernel string `json:"kernel,omitempty"` // path of a kernel; "" is the distribution's
	Append string `json:"append,omitempty"` // further kernel parameters
	Memory int64  `json:"memory,omitempty"` // bytes, where a payload has no limit; 0 is tare's default
	Disk   bool   `json:"disk,omitempty"`   // the root is a read-only disk under an overlay, instead of an initramfs
	// NoSeccomp turns VMMs' own filters of system calls off.
	NoSeccomp bool `json:"no-seccomp,omitempty"`
}

// String tells it in words.
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
	if g.NoSeccomp {
		parts = append(parts, "monitors without seccomp filters")
	}
	if len(parts) == 0 {
		return "nothing beside tare's defaults"
	}
	return strings.Join(parts, ", ")
}

// BootTold is what a machine told of a boot.
type BootTold struct {
	Log []byte // in a form of tare boot profile
	// Symbols say where the code of its initcalls is, in JSON: bootlog.Origin by the
	// names of initcalls. Nil where no source of the kernel was at hand.
	Symbols []byte
}

// ProofOptions say which kernel is put to the proof, and how far.
type ProofOptions struct {
	Kernel      string // path of its file; "" for the driver's own, which is made where it is not kept
	Quick       bool   // without the checks that take longest
	UntilFailed bool   // not beyond the first check that fails
}

// ProofCheck is one check of a proof, and what came of it.
type ProofCheck struct {
	Name    string  `json:"check"`
	Result  string  `json:"result"`            // ProofPassed, or what went wrong: its first line, and what the machine said
	Seconds float64 `json:"seconds,omitempty"` // that it took, on the guest's clock; 0 where none is known
}

// ProofPassed is the result of a check that passed.
const ProofPassed = "ok"

// Passed reports whether the check did.
func (c ProofCheck) Passed() bool { return c.Result == ProofPassed }
