package profile

import "github.com/tarelab/tare/internal/sample"

// tracked are the locks of a container's start that have a metric each: the
// names of the catalogue, and those of the kernel.
var tracked = []struct{ metric, lock string }{
	{"cgroup-mutex", "cgroup_mutex"},
	{"cgroup-threadgroup", "cgroup_threadgroup_rwsem"},
	{"rtnl", "rtnl_mutex"},
	{"pernet", "pernet_ops_rwsem"},
	{"namespace-sem", "namespace_sem"},
	{"directory", "i_rwsem of a directory"},
	{"rcu", "RCU grace period"},
	{"rcu-expedited", "RCU expedited grace period"},
}

// ofStates are the metrics of threads' states.
var ofStates = []struct {
	metric string
	state  State
}{
	{sample.OnCPUTime, OnCPU},
	{sample.AsleepTime, Asleep},
	{sample.RunnableTime, Runnable},
}

// Metrics are what Values gives.
func Metrics() []sample.Metric {
	metrics := sample.Describe(sample.LockWait, sample.LockWaits, sample.SleepWait, sample.KernelWait, sample.SharedWait)
	for _, t := range tracked {
		metrics = append(metrics, sample.WaitFor(t.metric))
	}
	return append(metrics, sample.Describe(sample.OnCPUTime, sample.AsleepTime, sample.RunnableTime, sample.ProbeTime)...)
}

// Values are the numbers of a profile: of its samples where it has some, else of
// its waits.
func (p Profile) Values() []sample.Value {
	if len(p.Samples) == 0 {
		return p.waitValues()
	}
	values := []sample.Value{{Metric: sample.ProbeTime, Value: p.Cost.Seconds()}}
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
		{Metric: sample.LockWait, Value: lock}, {Metric: sample.LockWaits, Value: float64(waits)},
		{Metric: sample.SleepWait, Value: sleep}, {Metric: sample.KernelWait, Value: kernel}, {Metric: sample.SharedWait, Value: shared},
		{Metric: sample.ProbeTime, Value: p.Cost.Seconds()},
	}
	for _, t := range tracked {
		values = append(values, sample.Value{Metric: sample.WaitFor(t.metric).Name, Value: own[t.lock]})
	}
	return values
}
