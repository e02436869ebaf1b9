package workload

import "github.com/tarelab/tare/internal/sample"

// Names of the general metrics, which the trial loop and the probes record for
// every workload.
const (
	Ready               = "ready"
	Wall                = "wall"
	Run                 = "run"
	Created             = "created"
	Started             = "started"
	CPU                 = "cpu"
	CPUUser             = "cpu-user"
	CPUSystem           = "cpu-system"
	PeakMemory          = "peak-memory"
	VoluntarySwitches   = "voluntary-switches"
	InvoluntarySwitches = "involuntary-switches"
	MinorFaults         = "minor-faults"
	MajorFaults         = "major-faults"
)

// General is the metrics of every workload, in the order of display. Times are
// of the host's CLOCK_MONOTONIC. CPU and memory cover all that belongs to the
// instance (payload and runtime); switches and faults cover the payload and
// the children that it waited for, as getrusage(2) counts them.
func General() []sample.Metric {
	return []sample.Metric{
		{Name: Ready, Unit: sample.Seconds, Better: sample.Lower, Help: "from the request to start until the payload's own process acted inside the target"},
		{Name: Wall, Unit: sample.Seconds, Better: sample.Lower, Help: "from the request to start until the payload had ended, as seen from outside"},
		{Name: Run, Unit: sample.Seconds, Better: sample.Lower, Help: "from the payload's first act until it had ended, as seen from outside"},
		{Name: Created, Unit: sample.Seconds, Better: sample.Lower, Help: "from the request to start until an engine had made the container"},
		{Name: Started, Unit: sample.Seconds, Better: sample.Lower, Help: "from the request to start until an engine said that the container runs: the payload may have acted before"},
		{Name: "vmm", Unit: sample.Seconds, Better: sample.Lower, Help: "from the request to start until the VMM's program was executed"},
		{Name: "vmm-ready", Unit: sample.Seconds, Better: sample.Lower, Help: "from the request to start until the VMM's control channel answered"},
		{Name: "firmware", Unit: sample.Seconds, Better: sample.Lower, Help: "from the request to start until the first line on the guest's console, where that is not its kernel's"},
		{Name: "kernel-byte", Unit: sample.Seconds, Better: sample.Lower, Help: "from the request to start until the guest kernel's first words on its console"},
		{Name: "kernel", Unit: sample.Seconds, Better: sample.Lower, Help: "from the request to start until the guest kernel's banner"},
		{Name: "init", Unit: sample.Seconds, Better: sample.Lower, Help: "from the request to start until the guest's kernel ran /init"},
		{Name: "agent", Unit: sample.Seconds, Better: sample.Lower, Help: "from the request to start until the guest's agent said hello"},
		{Name: "guest-kernel", Unit: sample.Seconds, Better: sample.Lower, Help: "by the guest's own clock, which starts with its kernel, until /init began: what systemd-analyze calls the kernel's time"},
		{Name: "guest-agent", Unit: sample.Seconds, Better: sample.Lower, Help: "by the guest's own clock, until the guest's agent said hello"},
		{Name: "guest-asked", Unit: sample.Seconds, Better: sample.Lower, Help: "by the guest's own clock, until the guest's agent had been told what to run"},
		{Name: "guest-executed", Unit: sample.Seconds, Better: sample.Lower, Help: "by the guest's own clock, until it executed the payload"},
		{Name: CPU, Unit: sample.Seconds, Better: sample.Lower, Help: "CPU time of the payload and of the runtime that belongs to it"},
		{Name: CPUUser, Unit: sample.Seconds, Better: sample.Lower, Help: "the part of it in user mode, as the kernel's ticks tell: coarse below 0.1 s"},
		{Name: CPUSystem, Unit: sample.Seconds, Better: sample.Lower, Help: "the part of it in the kernel, as the kernel's ticks tell: coarse below 0.1 s"},
		{Name: PeakMemory, Unit: sample.Bytes, Better: sample.Lower, Help: "largest memory use of the instance at one moment, as its cgroup counts it"},
		{Name: VoluntarySwitches, Unit: sample.Count, Better: sample.Lower, Help: "times that the payload gave up the CPU to wait"},
		{Name: InvoluntarySwitches, Unit: sample.Count, Better: sample.Lower, Help: "times that the kernel took the CPU from the payload"},
		{Name: MinorFaults, Unit: sample.Count, Better: sample.Lower, Help: "page faults of the payload that needed no I/O"},
		{Name: MajorFaults, Unit: sample.Count, Better: sample.Lower, Help: "page faults of the payload that needed I/O"},
	}
}
