// Package probe reads counters around a trial: what the instances used, and
// what else went on on the machine. Each probe is armed after the instances
// are prepared and read when their payloads have ended.
package probe

import "github.com/tarelab/tare/internal/sample"

// Names of the metrics that only probes give. The general ones (cpu,
// cpu-user, cpu-system, peak-memory) are defined in package workload.
const (
	PayloadCPU   = "payload-cpu"
	RuntimeCPU   = "runtime-cpu"
	ClientCPU    = "client-cpu"
	DaemonCPU    = "daemon-cpu"
	RuntimePeak  = "runtime-peak-memory"
	PayloadPeak  = "payload-peak-memory"
	Steal        = "steal"
	CPUPressure  = "cpu-pressure"
	IOPressure   = "io-pressure"
	MachineCPU   = "machine-cpu"
	TaskClock    = "task-clock"
	Migrations   = "migrations"
	PageFaults   = "page-faults"
	Switches     = "context-switches"
	Cycles       = "cycles"
	Instructions = "instructions"
)

// Metrics are the metrics that only probes give, with what they mean.
func Metrics() []sample.Metric {
	return []sample.Metric{
		{Name: PayloadCPU, Unit: sample.Seconds, Better: sample.Lower, Help: "CPU time of the payload's own processes, user and system"},
		{Name: RuntimeCPU, Unit: sample.Seconds, Better: sample.Lower, Help: "CPU time of the runtime, shim or VMM that belongs to the instance, user and system"},
		{Name: ClientCPU, Unit: sample.Seconds, Better: sample.Lower, Help: "CPU time of the command-line client, user and system"},
		{Name: DaemonCPU, Unit: sample.Seconds, Better: sample.Lower, Help: "CPU time of the engine that instances share, user and system, during the trial; in no total"},
		{Name: PayloadPeak, Unit: sample.Bytes, Better: sample.Lower, Help: "largest memory use of the payload's own cgroup at one moment"},
		{Name: RuntimePeak, Unit: sample.Bytes, Better: sample.Lower, Help: "largest memory use of the cgroup of the runtime, shim or VMM at one moment"},
		{Name: Steal, Unit: sample.Seconds, Better: sample.Lower, Help: "CPU time that the hypervisor gave to others during the trial, over all CPUs (steps of 10 ms)"},
		{Name: CPUPressure, Unit: sample.Seconds, Better: sample.Lower, Help: "time during the trial in which some task of the machine waited for a CPU"},
		{Name: IOPressure, Unit: sample.Seconds, Better: sample.Lower, Help: "time during the trial in which some task of the machine waited for I/O"},
		{Name: MachineCPU, Unit: sample.Seconds, Better: sample.Lower, Help: "CPU time that all CPUs of the machine spent on anything but tare itself during the trial (steps of 10 ms)"},
		{Name: TaskClock, Unit: sample.Seconds, Better: sample.Lower, Help: "time that the instances' tasks were on a CPU, by the kernel's perf counter"},
		{Name: Switches, Unit: sample.Count, Better: sample.Lower, Help: "context switches of the instances' tasks, voluntary or not"},
		{Name: Migrations, Unit: sample.Count, Better: sample.Lower, Help: "times that a task of the instances moved to another CPU"},
		{Name: PageFaults, Unit: sample.Count, Better: sample.Lower, Help: "page faults of the instances' tasks, with and without I/O"},
		{Name: Cycles, Unit: sample.Count, Better: sample.Lower, Help: "CPU cycles of the instances' tasks, user and kernel"},
		{Name: Instructions, Unit: sample.Count, Better: sample.Lower, Help: "instructions of the instances' tasks, user and kernel"},
	}
}
