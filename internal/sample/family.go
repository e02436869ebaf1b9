package sample

import "strings"

// A family is metrics whose names have one form with a parameter in it, such as
// the phase of a cycle. Its function is the only place that makes their names.
type family struct {
	form    string   // for docs: "PHASE-p50"
	members []string // what the parameter may be
	metric  func(of string) Metric
}

// churnPhases are the parts of the churn workloads' cycles.
var churnPhases = []string{
	"mkdir", "join", "leave", "rmdir", // of cgroups
	"create", "veth", "address", "destroy", // of network namespaces
	"mount", "pivot", "umount", // of mount namespaces
	"none", "pid", "uts", "ipc", "net", "cgroup", "user", // processes, by the new namespace
}

// PhaseRate is how often a phase of a churn cycle could be done per second.
func PhaseRate(phase string) Metric {
	return Metric{phase + "-rate", PerSecond, Higher, "how many per second if all tasks did nothing but " + phase + ": tasks divided by the mean time"}
}

// PhaseP50 is the median time of a phase of a churn cycle.
func PhaseP50(phase string) Metric {
	return Metric{phase + "-p50", Seconds, Lower, "median time of " + phase}
}

// PhaseP99 is the 99th percentile of the time of a phase of a churn cycle.
func PhaseP99(phase string) Metric {
	return Metric{phase + "-p99", Seconds, Lower, "99th percentile of the time of " + phase + " (from 100 cycles on)"}
}

// PhaseMax is the longest time of a phase of a churn cycle.
func PhaseMax(phase string) Metric {
	return Metric{phase + "-max", Seconds, Lower, "longest time of " + phase}
}

// LoadContainers are the containers of the workload container-load, in the
// order of their start.
var LoadContainers = []string{"package", "agent", "late"}

// ContainerCPU is how many CPUs a container of the workload container-load keeps busy.
func ContainerCPU(container string) Metric {
	return Metric{container + "-cpu", Count, Lower, "mean number of CPUs that the container " + container + " keeps busy from its start on: 0.1 is 10 %"}
}

// SwitchRoles are the parts of an instance whose context switches are counted
// apart; those of the clients are among the ClientCounters.
var SwitchRoles = []string{"payload", "runtime", "daemon"}

// RoleSwitches are the context switches of one part of the instances.
func RoleSwitches(role string) Metric {
	return Metric{role + "-" + Switches, Count, Lower, "context switches of the " + role + "'s tasks; those of all roles sum to " + Switches}
}

// Counters are the counters of perf, with the share of the time that they counted.
var Counters = []string{TaskClock, Switches, Migrations, PageFaults, Cycles, Instructions, Branches, BranchMisses, Counted}

// ClientCounter is a counter of perf for the command-line clients alone.
func ClientCounter(counter string) Metric {
	m := entries[counter].Metric
	m.Name, m.Help = "client-"+counter, strings.ReplaceAll(m.Help, "instances'", "clients'")
	return m
}

// locks are the locks of a container's start that have a metric each.
var locks = []string{"cgroup-mutex", "cgroup-threadgroup", "rtnl", "pernet", "namespace-sem", "directory", "rcu", "rcu-expedited"}

// lockHelp says what each of locks is.
var lockHelp = map[string]string{
	"cgroup-mutex":       "cgroup_mutex: cgroups are made, joined and removed under it",
	"cgroup-threadgroup": "cgroup_threadgroup_rwsem: keeps a process from starting threads while it changes its cgroup",
	"rtnl":               "rtnl_mutex: all changes to network devices, of all namespaces",
	"pernet":             "pernet_ops_rwsem: network namespaces are made and destroyed under it",
	"namespace-sem":      "namespace_sem: all changes to mounts",
	"directory":          "i_rwsem of a directory: entries of a directory are made and removed under it",
	"rcu":                "an RCU grace period: until no CPU uses what it read before",
	"rcu-expedited":      "an expedited RCU grace period: until no CPU uses what it read before",
}

// WaitFor is the time that threads waited for one of locks.
func WaitFor(lock string) Metric {
	return Metric{"wait-" + lock, Seconds, Lower, "time that the trial's threads waited for " + lockHelp[lock] + "; summed over threads"}
}

// families are the families of the catalogue.
var families = []family{
	{"PHASE-rate", churnPhases, PhaseRate},
	{"PHASE-p50", churnPhases, PhaseP50},
	{"PHASE-p99", churnPhases, PhaseP99},
	{"PHASE-max", churnPhases, PhaseMax},
	{"CONTAINER-cpu", LoadContainers, ContainerCPU},
	{"ROLE-" + Switches, SwitchRoles, RoleSwitches},
	{"client-COUNTER", Counters, ClientCounter},
	{"wait-LOCK", locks, WaitFor},
}
