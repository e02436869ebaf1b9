package probe

import (
	"context"
	"fmt"
	"path"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/target"
)

// Cgroup reads the CPU time and the peak memory of the instances' cgroups. It
// gives the general metrics cpu, cpu-user, cpu-system and peak-memory over all
// instances of the trial, without shared daemons, and the same per role.
//
// Where no cgroup can be read it gives nothing. Peak memory holds the page
// cache that the instance was first to touch, as the kernel charges it.
type Cgroup struct{}

// Begin notes what the cgroups used so far and forgets their peaks.
func (Cgroup) Begin(_ context.Context, on []target.Watch) (func() ([]sample.Value, error), error) {
	h, err := sys.Cgroups()
	if err != nil {
		return nil, fmt.Errorf("cgroup probe: %w", err)
	}
	var cpus []cpuMeter
	for _, w := range distinct(on) {
		before, _, err := h.CPUTime(w.Cgroup)
		if err != nil {
			return nil, fmt.Errorf("cgroup probe: %w", err)
		}
		cpus = append(cpus, cpuMeter{role: w.Role, cgroup: w.Cgroup, before: before})
	}
	alone := armProcesses(on)
	peaks, err := armPeaks(h, on)
	if err != nil {
		return nil, fmt.Errorf("cgroup probe: %w", err)
	}
	return func() ([]sample.Value, error) {
		values, err := readCPUs(h, cpus, alone)
		if err == nil {
			var memory []sample.Value
			memory, err = readPeaks(peaks)
			values = append(values, memory...)
		}
		for _, p := range peaks {
			p.close()
		}
		if err != nil {
			return nil, fmt.Errorf("cgroup probe: %w", err)
		}
		return values, nil
	}, nil
}

// distinct drops watches without a cgroup or of one process alone, and those whose cgroup is another's
// or lies inside it: nothing may be counted twice.
func distinct(on []target.Watch) []target.Watch {
	first := map[string]int{} // by cgroup; thousands of watches are not compared with each other
	for i, w := range on {
		group := path.Clean(w.Cgroup)
		if _, known := first[group]; !known && w.Cgroup != "" && !w.Alone {
			first[group] = i
		}
	}
	var out []target.Watch
	for i, w := range on {
		group := path.Clean(w.Cgroup)
		if w.Cgroup == "" || w.Alone || first[group] != i {
			continue
		}
		inside := false
		for dir := path.Dir(group); dir != "." && !inside; dir = path.Dir(dir) {
			_, inside = first[dir]
			if dir == "/" {
				break
			}
		}
		if !inside {
			out = append(out, w)
		}
	}
	return out
}

// cpuMeter is one cgroup whose CPU time is read.
type cpuMeter struct {
	role   target.Role
	cgroup string
	before sys.CPUTime
}

var roleCPU = map[target.Role]string{
	target.RolePayload: PayloadCPU, target.RoleRuntime: RuntimeCPU,
	target.RoleClient: ClientCPU, target.RoleDaemon: DaemonCPU,
	target.RolePeer: PeerCPU, target.RoleRelay: RelayCPU,
}

// readCPUs gives the CPU time since Begin. What a process alone has used is
// taken from its group's, so that the roles sum to the groups' total.
func readCPUs(h sys.Hierarchies, meters []cpuMeter, alone []processMeter) ([]sample.Value, error) {
	var total sys.CPUTime
	found := false
	roles := map[target.Role]float64{}
	for _, m := range meters {
		after, ok, err := h.CPUTime(m.cgroup)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		used := after.Sub(m.before)
		for _, p := range alone {
			if p.cgroup == m.cgroup {
				own := p.used()
				used.Total -= own
				roles[p.role] += own
			}
		}
		roles[m.role] += used.Total
		if m.role != target.RoleDaemon {
			found = true
			total = total.Add(used)
		}
	}
	var values []sample.Value
	if found {
		user, system := total.Split()
		values = append(values,
			sample.Value{Metric: "cpu", Value: total.Total},
			sample.Value{Metric: "cpu-user", Value: user},
			sample.Value{Metric: "cpu-system", Value: system})
	}
	for _, r := range []target.Role{target.RolePayload, target.RoleRuntime, target.RoleClient, target.RoleDaemon, target.RolePeer, target.RoleRelay} {
		if used, ok := roles[r]; ok {
			values = append(values, sample.Value{Metric: roleCPU[r], Value: used})
		}
	}
	return values, nil
}

// mostOpen is how many peaks are held open during a trial; more would take a
// process's file descriptors.
const mostOpen = 256

// armPeaks opens the peaks of the watched cgroups and of the instances that
// they belong to. A peak of a sum is not the sum of peaks: payload and runtime
// of one instance have a common parent, and that one's peak is the instance's.
func armPeaks(h sys.Hierarchies, on []target.Watch) (peaks []peak, err error) {
	metrics, daemons := map[string]string{}, map[string]bool{} // by cgroup
	for _, w := range on {
		daemons[w.Cgroup] = daemons[w.Cgroup] || w.Alone
	}
	for _, w := range distinct(on) {
		if daemons[w.Cgroup] {
			continue // a daemon's memory is in it, and in no instance's
		}
		switch w.Role {
		case target.RolePayload:
			metrics[w.Cgroup] = PayloadPeak
		case target.RoleRuntime:
			metrics[w.Cgroup] = RuntimePeak
		case target.RoleDaemon, target.RoleClient:
			continue
		case target.RolePeer, target.RoleRelay:
			continue // their groups lie inside the instance's, whose peak holds theirs
		}
		metrics[instanceOf(w.Cgroup)] = "peak-memory"
	}
	arm := armPeak
	if len(metrics) > mostOpen {
		arm = namePeak
	}
	for cgroup, metric := range metrics {
		p, ok, err := arm(h, cgroup, metric)
		if err != nil {
			for _, p := range peaks {
				p.close()
			}
			return nil, err
		}
		if ok {
			peaks = append(peaks, p)
		}
	}
	return peaks, nil
}

// instanceOf is the cgroup of the whole instance, whose children payload and
// runtime may be (target.Spec.Cgroup).
func instanceOf(cgroup string) string {
	for dir := cgroup; dir != "." && dir != "/"; dir = path.Dir(dir) {
		if base := path.Base(dir); base == "payload" || base == "runtime" {
			return path.Dir(dir)
		}
	}
	return cgroup
}

func readPeaks(peaks []peak) ([]sample.Value, error) {
	sums := map[string]float64{}
	for _, p := range peaks {
		n, ok, err := p.read()
		if err != nil {
			return nil, err
		}
		if ok {
			sums[p.metric] += n
		}
	}
	var values []sample.Value
	for _, m := range []string{"peak-memory", PayloadPeak, RuntimePeak} {
		if n, ok := sums[m]; ok {
			values = append(values, sample.Value{Metric: m, Value: n})
		}
	}
	return values, nil
}
