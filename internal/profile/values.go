package profile

import "github.com/tarelab/tare/internal/sample"

// Names of the metrics of a profile. Those of single locks are in Metrics.
const (
	LockWait     = "lock-wait"
	LockWaits    = "lock-waits"
	SleepWait    = "sleep-wait"
	KernelWait   = "kernel-lock-wait"
	SharedWait   = "shared-lock-wait"
	ProbeTime    = "probe-time"
	OnCPUTime    = "on-cpu"
	AsleepTime   = "asleep"
	RunnableTime = "runnable"
)

// tracked are the locks of a container's start that have a metric each.
var tracked = []struct{ metric, lock, help string }{
	{"wait-cgroup-mutex", "cgroup_mutex", "cgroups are made, joined and removed under it"},
	{"wait-cgroup-threadgroup", "cgroup_threadgroup_rwsem", "keeps threads from being born while their process changes its cgroup"},
	{"wait-rtnl", "rtnl_mutex", "all changes to network devices, of all namespaces"},
	{"wait-pernet", "pernet_ops_rwsem", "network namespaces are made and destroyed under it"},
	{"wait-namespace-sem", "namespace_sem", "all changes to mounts"},
	{"wait-directory", "i_rwsem of a directory", "entries of a directory are made and removed under it"},
	{"wait-rcu", "RCU grace period", "until all CPUs have forgotten what they read"},
	{"wait-rcu-expedited", "RCU expedited grace period", "the same, hurried"},
}

// ofStates are the metrics of threads' states.
var ofStates = []struct {
	metric string
	state  State
	help   string
}{
	{OnCPUTime, OnCPU, "time that the trial's threads ran"},
	{AsleepTime, Asleep, "time that the trial's threads slept, for whatever reason"},
	{RunnableTime, Runnable, "time that the trial's threads waited for a CPU after one was taken from them"},
}

// Metrics are what Values gives, with what they mean.
func Metrics() []sample.Metric {
	metrics := []sample.Metric{
		{Name: LockWait, Unit: sample.Seconds, Better: sample.Lower, Help: "time that the trial's threads waited for kernel locks, summed over threads"},
		{Name: LockWaits, Unit: sample.Count, Better: sample.Lower, Help: "waits of the trial's threads for kernel locks"},
		{Name: SleepWait, Unit: sample.Seconds, Better: sample.Lower, Help: "time that the trial's threads slept uninterruptibly for anything but a lock, summed over threads"},
		{Name: KernelWait, Unit: sample.Seconds, Better: sample.Lower, Help: "time that the kernel's own threads waited for locks meanwhile, for whomever they worked, summed over threads"},
		{Name: SharedWait, Unit: sample.Seconds, Better: sample.Lower, Help: "time that threads of the user's own engine waited for locks meanwhile, which may work for others too, summed over threads"},
	}
	for _, t := range tracked {
		metrics = append(metrics, sample.Metric{Name: t.metric, Unit: sample.Seconds, Better: sample.Lower,
			Help: "time that the trial's threads waited for " + t.lock + ": " + t.help + "; summed over threads"})
	}
	for _, m := range ofStates {
		metrics = append(metrics, sample.Metric{Name: m.metric, Unit: sample.Seconds, Better: sample.Lower, Help: m.help + ", summed over threads"})
	}
	return append(metrics, sample.Metric{Name: ProbeTime, Unit: sample.Seconds, Better: sample.Lower, Help: "CPU time of the probe's own programs"})
}

// Values are the numbers of a profile: of its samples where it has some, else of
// its waits.
func (p Profile) Values() []sample.Value {
	if len(p.Samples) == 0 {
		return p.waitValues()
	}
	values := []sample.Value{{Metric: ProbeTime, Value: p.Cost.Seconds()}}
	for _, m := range ofStates {
		values = append(values, sample.Value{Metric: m.metric, Value: p.StateTotal(m.state)})
	}
	return values
}

func (p Profile) waitValues() []sample.Value {
	var lock, sleep, kernel, shared float64
	var waits uint64
	own := map[string]float64{} // by name
	for _, r := range p.Table() {
		switch {
		case r.Kernel && r.Kind != Sleep:
			kernel += r.Total
		case r.Shared && r.Kind != Sleep:
			shared += r.Total
		case r.Kernel || r.Shared: // nobody knows what for: who is idle sleeps, too
		case r.Kind == Sleep:
			sleep += r.Total
			own[r.Name] += r.Total
		default:
			lock += r.Total
			waits += r.Waits
			own[r.Name] += r.Total
		}
	}
	values := []sample.Value{
		{Metric: LockWait, Value: lock}, {Metric: LockWaits, Value: float64(waits)},
		{Metric: SleepWait, Value: sleep}, {Metric: KernelWait, Value: kernel}, {Metric: SharedWait, Value: shared},
		{Metric: ProbeTime, Value: p.Cost.Seconds()},
	}
	for _, t := range tracked {
		values = append(values, sample.Value{Metric: t.metric, Value: own[t.lock]})
	}
	return values
}
