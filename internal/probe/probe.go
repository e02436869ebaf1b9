// Package probe reads counters around a trial: what the instances used, and
// what else went on on the machine. Each probe is armed after the instances
// are prepared and read when their payloads have ended.
package probe

import (
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/sample"
)

// Names of the metrics that only probes give. The general ones (cpu,
// cpu-user, cpu-system, peak-memory) are defined in package workload.
const (
	PayloadCPU = "payload-cpu"
	RuntimeCPU = "runtime-cpu"
	ClientCPU  = "client-cpu"
	DaemonCPU  = "daemon-cpu"
	PeerCPU    = "peer-cpu"
	// What the neighbour tables of two ends hold.
	ClientNeighbours = "client-neighbours"
	ServerNeighbours = "server-neighbours"
	RelayCPU         = "relay-cpu"
	RuntimePeak      = "runtime-peak-memory"
	PayloadPeak      = "payload-peak-memory"
	Steal            = "steal"
	CPUPressure      = "cpu-pressure"
	IOPressure       = "io-pressure"
	MachineCPU       = "machine-cpu"
	SoftIRQ          = "softirq"
	TaskClock        = "task-clock"
	Migrations       = "migrations"
	PageFaults       = "page-faults"
	Switches         = "context-switches"
	Cycles           = "cycles"
	Instructions     = "instructions"
	Branches         = "branches"
	BranchMisses     = "branch-misses"
	Counted          = "counted"
	ClockCounted     = "clock-counted"
	ClockCPUFreq     = "clock-cpufreq"

	GroupCPUPressure    = "group-cpu-pressure"
	GroupIOPressure     = "group-io-pressure"
	GroupMemoryPressure = "group-memory-pressure"
	RunQueueWait        = "run-queue-wait"
	TareCPU             = "tare-cpu"

	AvailableDrop = "available-drop"
	Mapped        = "mapped"
	Dirty         = "dirty"
	GuestResident = "guest-resident"
	VMMOverhead   = "vmm-overhead"
	PayloadPSS    = "payload-pss"
	PayloadRSS    = "payload-rss"
	PayloadCharge = "payload-charge"
	RuntimePSS    = "runtime-pss"
	RuntimeRSS    = "runtime-rss"
	RuntimeCharge = "runtime-charge"
	ClientPSS     = "client-pss"
	ClientRSS     = "client-rss"
	ClientCharge  = "client-charge"
	DaemonPSS     = "daemon-pss"
	DaemonRSS     = "daemon-rss"
	DaemonCharge  = "daemon-charge"
)

// Metrics are the metrics that only probes give, with what they mean.
func Metrics() []sample.Metric {
	return append(ownMetrics(), RoleCounters()...)
}

// RoleCounters are the counters of Perf for the command-line clients alone, and
// the context switches of the other roles.
func RoleCounters() []sample.Metric {
	var all []sample.Metric
	for _, role := range switchRoles {
		all = append(all, sample.Metric{Name: roleSwitches(role), Unit: sample.Count, Better: sample.Lower,
			Help: "context switches of the " + string(role) + "'s tasks; those of all roles sum to " + Switches})
	}
	for _, m := range ownMetrics() {
		if m.Name == Counted || slices.ContainsFunc(events, func(e event) bool { return e.metric == m.Name }) {
			m.Name, m.Help = clientPrefix+m.Name, strings.ReplaceAll(m.Help, "instances'", "clients'")
			all = append(all, m)
		}
	}
	return all
}

func ownMetrics() []sample.Metric {
	return []sample.Metric{
		{Name: PayloadCPU, Unit: sample.Seconds, Better: sample.Lower, Help: "CPU time of the payload's own processes, user and system"},
		{Name: RuntimeCPU, Unit: sample.Seconds, Better: sample.Lower, Help: "CPU time of the runtime, shim or VMM that belongs to the instance, user and system"},
		{Name: ClientCPU, Unit: sample.Seconds, Better: sample.Lower, Help: "CPU time of the command-line client, user and system"},
		{Name: DaemonCPU, Unit: sample.Seconds, Better: sample.Lower, Help: "CPU time of the engine that instances share, user and system, during the trial; in no total"},
		{Name: PeerCPU, Unit: sample.Seconds, Better: sample.Lower, Help: "CPU time of the other end of the payload's connection, user and system"},
		{Name: RelayCPU, Unit: sample.Seconds, Better: sample.Lower, Help: "CPU time of what copies between the two ends, user and system"},
		{Name: ClientNeighbours, Unit: sample.Count, Better: sample.Lower, Help: "entries of the client's IPv4 neighbour table when it had ended"},
		{Name: ServerNeighbours, Unit: sample.Count, Better: sample.Lower, Help: "entries of the server's IPv4 neighbour table when the client had ended"},
		{Name: PayloadPeak, Unit: sample.Bytes, Better: sample.Lower, Help: "largest memory use of the payload's own cgroup at one moment"},
		{Name: RuntimePeak, Unit: sample.Bytes, Better: sample.Lower, Help: "largest memory use of the cgroup of the runtime, shim or VMM at one moment"},
		{Name: Steal, Unit: sample.Seconds, Better: sample.Lower, Help: "CPU time that the hypervisor gave to others during the trial, over all CPUs (steps of 10 ms)"},
		{Name: CPUPressure, Unit: sample.Seconds, Better: sample.Lower, Help: "time during the trial in which some task of the machine waited for a CPU"},
		{Name: IOPressure, Unit: sample.Seconds, Better: sample.Lower, Help: "time during the trial in which some task of the machine waited for I/O"},
		{Name: MachineCPU, Unit: sample.Seconds, Better: sample.Lower, Help: "CPU time that all CPUs of the machine spent on anything but tare itself during the trial (steps of 10 ms)"},
		{Name: SoftIRQ, Unit: sample.Seconds, Better: sample.Lower, Help: "time that all CPUs of the machine spent in soft interrupts during the trial (steps of 10 ms)"},
		{Name: TaskClock, Unit: sample.Seconds, Better: sample.Lower, Help: "time that the instances' tasks were on a CPU, by the kernel's perf counter"},
		{Name: Switches, Unit: sample.Count, Better: sample.Lower, Help: "context switches of the instances' tasks, voluntary or not"},
		{Name: Migrations, Unit: sample.Count, Better: sample.Lower, Help: "times that one of the instances' tasks moved to another CPU"},
		{Name: PageFaults, Unit: sample.Count, Better: sample.Lower, Help: "page faults of the instances' tasks, with and without I/O"},
		{Name: Cycles, Unit: sample.Count, Better: sample.Lower, Help: "CPU cycles of the instances' tasks, user and kernel"},
		{Name: Instructions, Unit: sample.Count, Better: sample.Lower, Help: "instructions of the instances' tasks, user and kernel"},
		{Name: Branches, Unit: sample.Count, Better: sample.Lower, Help: "branches of the instances' tasks, user and kernel"},
		{Name: BranchMisses, Unit: sample.Count, Better: sample.Lower, Help: "branches of the instances' tasks that the CPU had guessed wrong"},
		{Name: Counted, Unit: sample.Count, Better: sample.Higher, Help: "share of the time that the CPU had a register for perf's counters, the least of the instances' events; they are scaled up by it, and it is there where it is below 1"},
		{Name: ClockCounted, Unit: sample.PerSecond, Better: sample.Higher, Help: "rate of the CPUs while the instances' tasks were on them, by the cycle counter"},
		{Name: ClockCPUFreq, Unit: sample.PerSecond, Better: sample.Higher, Help: "rate of the fastest CPU during the trial, as cpufreq says every 100 ms"},
		{Name: GroupCPUPressure, Unit: sample.Seconds, Better: sample.Lower, Help: "time in which some task of the instances waited for a CPU"},
		{Name: GroupIOPressure, Unit: sample.Seconds, Better: sample.Lower, Help: "time in which some task of the instances waited for I/O"},
		{Name: GroupMemoryPressure, Unit: sample.Seconds, Better: sample.Lower, Help: "time in which some task of the instances waited for memory"},
		{Name: RunQueueWait, Unit: sample.Seconds, Better: sample.Lower, Help: "how long all tasks of the machine together waited on run queues"},
		{Name: TareCPU, Unit: sample.Seconds, Better: sample.Lower, Help: "CPU time of tare itself during the trial"},
		{Name: AvailableDrop, Unit: sample.Bytes, Better: sample.Lower, Help: "by how much MemAvailable fell for each instance that was held, with all that the kernel and tare keep for it"},
		{Name: Mapped, Unit: sample.Bytes, Better: sample.Lower, Help: "address space of an instance's payload, the sum of its mappings as pmap -x tells it"},
		{Name: Dirty, Unit: sample.Bytes, Better: sample.Lower, Help: "memory of an instance's payload that was written to, shared or private, as pmap -x tells it"},
		{Name: GuestResident, Unit: sample.Bytes, Better: sample.Lower, Help: "the part of a virtual machine's memory that the host has given it"},
		{Name: VMMOverhead, Unit: sample.Bytes, Better: sample.Lower, Help: "resident memory of a VMM beside its guest's memory"},
		{Name: PayloadPSS, Unit: sample.Bytes, Better: sample.Lower, Help: "memory of an instance's payload, pages shared with others in proportion"},
		{Name: PayloadRSS, Unit: sample.Bytes, Better: sample.Lower, Help: "resident memory of an instance's payload, shared pages in full"},
		{Name: PayloadCharge, Unit: sample.Bytes, Better: sample.Lower, Help: "memory that an instance's payload cgroup is charged with"},
		{Name: RuntimePSS, Unit: sample.Bytes, Better: sample.Lower, Help: "memory of an instance's runtime, shim or VMM, pages shared with others in proportion"},
		{Name: RuntimeRSS, Unit: sample.Bytes, Better: sample.Lower, Help: "resident memory of an instance's runtime, shim or VMM, shared pages in full"},
		{Name: RuntimeCharge, Unit: sample.Bytes, Better: sample.Lower, Help: "memory that the cgroup of an instance's runtime, shim or VMM is charged with, with tare's launcher in it"},
		{Name: ClientPSS, Unit: sample.Bytes, Better: sample.Lower, Help: "memory of an instance's command-line client, pages shared with others in proportion"},
		{Name: ClientRSS, Unit: sample.Bytes, Better: sample.Lower, Help: "resident memory of an instance's command-line client, shared pages in full"},
		{Name: ClientCharge, Unit: sample.Bytes, Better: sample.Lower, Help: "memory that the clients' cgroup is charged with for each instance, with tare's launchers in it"},
		{Name: DaemonPSS, Unit: sample.Bytes, Better: sample.Lower, Help: "memory of the engine that all instances share, as a whole"},
		{Name: DaemonRSS, Unit: sample.Bytes, Better: sample.Lower, Help: "resident memory of the engine that all instances share, as a whole"},
		{Name: DaemonCharge, Unit: sample.Bytes, Better: sample.Lower, Help: "memory that the engine's cgroup is charged with, as a whole"},
	}
}
