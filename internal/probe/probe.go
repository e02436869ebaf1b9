// Package probe reads counters around a trial: what the instances used, and
// what else went on on the machine. Each probe is armed after the instances
// are prepared and read when their payloads have ended.
package probe

import "github.com/tarelab/tare/internal/sample"

// Metrics are the metrics that only probes give.
func Metrics() []sample.Metric {
	return append(sample.Describe(
		sample.PayloadCPU, sample.RuntimeCPU, sample.ClientCPU, sample.DaemonCPU, sample.PeerCPU, sample.RelayCPU,
		sample.ClientNeighbours, sample.ServerNeighbours, sample.OnNetwork, sample.NFTRules, sample.IPTablesRules, sample.Proxies, sample.Resolvers, sample.PayloadPeak, sample.RuntimePeak,
		sample.Steal, sample.CPUPressure, sample.IOPressure, sample.MachineCPU, sample.SoftIRQ,
		sample.TaskClock, sample.Switches, sample.Migrations, sample.PageFaults,
		sample.Cycles, sample.Instructions, sample.Branches, sample.BranchMisses, sample.Counted,
		sample.ClockCounted, sample.ClockCPUFreq,
		sample.GroupCPUPressure, sample.GroupIOPressure, sample.GroupMemoryPressure, sample.RunQueueWait, sample.TareCPU,
		sample.AvailableDrop, sample.Mapped, sample.Dirty, sample.GuestResident, sample.VMMOverhead, sample.VMMThreads, sample.VMMFiltered, sample.SavedSize,
		sample.PayloadPSS, sample.PayloadRSS, sample.PayloadCharge,
		sample.RuntimePSS, sample.RuntimeRSS, sample.RuntimeCharge,
		sample.ClientPSS, sample.ClientRSS, sample.ClientCharge,
		sample.DaemonPSS, sample.DaemonRSS, sample.DaemonCharge,
	), RoleCounters()...)
}

// RoleCounters are the counters of Perf for the command-line clients alone, and
// the context switches of the other roles.
func RoleCounters() []sample.Metric {
	var all []sample.Metric
	for _, role := range sample.SwitchRoles {
		all = append(all, sample.RoleSwitches(role))
	}
	for _, counter := range sample.Counters {
		all = append(all, sample.ClientCounter(counter))
	}
	return all
}
