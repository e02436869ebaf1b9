package probe

import (
	"context"
	"fmt"
	"path"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/sys"
)

// Cgroup reads the CPU time and the peak memory of the instances' cgroups. It
// gives the general metrics cpu, cpu-user, cpu-system and peak-memory over all
// instances of the trial, without shared daemons, and the same per role.
//
// Where no cgroup can be read it gives nothing. Peak memory holds the page
// cache that the instance was first to touch, as the kernel charges it.
type Cgroup struct{}

// Begin notes what the cgroups used so far and forgets their peaks.
func (Cgroup) Begin(_ context.Context, on []driver.Watch) (func() ([]sample.Value, error), error) {
	h, err := sys.Cgroups()
	if err != nil {
		return nil, fmt.Errorf("cgroup probe: %w", err)
	}
	cpus, err := armCPUs(h, on)
	if err != nil {
		return nil, fmt.Errorf("cgroup probe: %w", err)
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
func distinct(on []driver.Watch) []driver.Watch {
	first := map[string]int{} // by cgroup; thousands of watches are not compared with each other
	for i, w := range on {
		group := path.Clean(w.Cgroup)
		if _, known := first[group]; !known && w.Cgroup != "" && !w.Alone {
			first[group] = i
		}
	}
	var out []driver.Watch
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

// inner are the watches whose cgroup lies inside that of another role, by that one's
// cgroup: a monitor of Podman's, which it puts beside the container.
func inner(on []driver.Watch) map[string][]driver.Watch {
	outer := map[string]driver.Role{}
	for _, w := range distinct(on) {
		outer[path.Clean(w.Cgroup)] = w.Role
	}
	found, seen := map[string][]driver.Watch{}, map[string]bool{}
	for _, w := range on {
		group := path.Clean(w.Cgroup)
		if w.Cgroup == "" || w.Alone || seen[group] {
			continue
		}
		seen[group] = true
		for dir := path.Dir(group); dir != "." && dir != "/"; dir = path.Dir(dir) {
			if role, known := outer[dir]; known && role != w.Role {
				found[dir] = append(found[dir], w)
			}
		}
	}
	return found
}

// cpuMeter is one cgroup whose CPU time is read.
type cpuMeter struct {
	role   driver.Role
	cgroup string
	before sys.CPUTime
	inner  []cpuMeter // of other roles, inside it
}

// armCPUs notes what all distinct groups have used so far.
func armCPUs(h sys.Hierarchies, on []driver.Watch) ([]cpuMeter, error) {
	inside := inner(on)
	meters := make([]cpuMeter, 0, len(on))
	for _, w := range distinct(on) {
		m, err := armCPU(h, w)
		if err != nil {
			return nil, err
		}
		for _, in := range inside[path.Clean(w.Cgroup)] {
			own, err := armCPU(h, in)
			if err != nil {
				return nil, err
			}
			m.inner = append(m.inner, own)
		}
		meters = append(meters, m)
	}
	return meters, nil
}

func armCPU(h sys.Hierarchies, w driver.Watch) (cpuMeter, error) {
	before, _, err := h.CPUTime(w.Cgroup)
	return cpuMeter{role: w.Role, cgroup: w.Cgroup, before: before}, err
}

// used is the CPU time since arming; ok says that there is such a group.
func (m cpuMeter) used(h sys.Hierarchies) (t sys.CPUTime, ok bool, err error) {
	after, ok, err := h.CPUTime(m.cgroup)
	return after.Sub(m.before), ok, err
}

var roleCPU = map[driver.Role]string{
	driver.RolePayload: sample.PayloadCPU, driver.RoleRuntime: sample.RuntimeCPU,
	driver.RoleClient: sample.ClientCPU, driver.RoleDaemon: sample.DaemonCPU,
	driver.RolePeer: sample.PeerCPU, driver.RoleRelay: sample.RelayCPU,
}

// readCPUs gives the CPU time since Begin. What a process alone, or a group inside
// it, has used is taken from its group's, so that the roles sum to the groups' total.
func readCPUs(h sys.Hierarchies, meters []cpuMeter, alone []processMeter) ([]sample.Value, error) {
	var total sys.CPUTime
	found := false
	roles := map[driver.Role]float64{}
	for _, m := range meters {
		used, ok, err := m.used(h)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		for _, p := range alone {
			if p.cgroup == m.cgroup {
				own := p.used()
				used.Total -= own
				roles[p.role] += own
			}
		}
		roles[m.role] += used.Total
		for _, in := range m.inner {
			its, ok, err := in.used(h)
			if err != nil {
				return nil, err
			}
			if ok {
				roles[m.role] -= its.Total
				roles[in.role] += its.Total
			}
		}
		if m.role != driver.RoleDaemon {
			found = true
			total = total.Add(used)
		}
	}
	var values []sample.Value
	if found {
		user, system := total.Split()
		values = append(values,
			sample.Value{Metric: sample.CPU, Value: total.Total},
			sample.Value{Metric: sample.CPUUser, Value: user},
			sample.Value{Metric: sample.CPUSystem, Value: system})
	}
	for _, r := range []driver.Role{driver.RolePayload, driver.RoleRuntime, driver.RoleClient, driver.RoleDaemon, driver.RolePeer, driver.RoleRelay} {
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
func armPeaks(h sys.Hierarchies, on []driver.Watch) (peaks []peak, err error) {
	metrics, daemons := map[string]string{}, map[string]bool{} // by cgroup
	for _, w := range on {
		daemons[w.Cgroup] = daemons[w.Cgroup] || w.Alone
	}
	for _, w := range distinct(on) {
		if daemons[w.Cgroup] {
			continue // a daemon's memory is in it, and in no instance's
		}
		switch w.Role {
		case driver.RolePayload:
			metrics[w.Cgroup] = sample.PayloadPeak
		case driver.RoleRuntime:
			metrics[w.Cgroup] = sample.RuntimePeak
		case driver.RoleDaemon, driver.RoleClient:
			continue
		case driver.RolePeer, driver.RoleRelay:
			continue // their groups lie inside the instance's, whose peak holds theirs
		}
		metrics[instanceOf(w.Cgroup)] = sample.PeakMemory
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
// runtime may be (driver.Spec.Cgroup).
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
	for _, m := range []string{sample.PeakMemory, sample.PayloadPeak, sample.RuntimePeak} {
		if n, ok := sums[m]; ok {
			values = append(values, sample.Value{Metric: m, Value: n})
		}
	}
	return values, nil
}
