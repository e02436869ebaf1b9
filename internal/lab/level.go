package lab

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/go-units"
	"github.com/prometheus/procfs"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
)

// firstCPUs is how a study asks for so many of the CPUs that are allowed, on
// any machine: "first", "first-4".
const firstCPUs = "first"

// settleLevel says what a level means on a machine where the given CPUs may be
// used: its cpuset by numbers, and which CPUs it has.
func settleLevel(l study.Limits, allowed []int) (study.Limits, []int, error) {
	if l.CPUs > float64(len(allowed)) {
		return l, nil, fmt.Errorf("cpus: %g are asked for, and only %d may be used here (%s)", l.CPUs, len(allowed), formatCPUs(allowed))
	}
	if l.CPUSet == "" {
		return l, allowed, nil
	}
	cpus, err := chooseCPUs(l.CPUSet, allowed)
	if err != nil {
		return l, nil, fmt.Errorf("cpuset %s: %w", l.CPUSet, err)
	}
	l.CPUSet = formatCPUs(cpus)
	return l, cpus, nil
}

// chooseCPUs reads a cpuset; each of its CPUs must be allowed.
func chooseCPUs(set string, allowed []int) ([]int, error) {
	if number, first := strings.CutPrefix(set, firstCPUs); first {
		n := 1
		if number != "" {
			var err error
			if n, err = strconv.Atoi(strings.TrimPrefix(number, "-")); err != nil {
				return nil, err
			}
		}
		if n > len(allowed) {
			return nil, fmt.Errorf("%d CPUs are asked for (by --cpus or the study), and only %d may be used here (%s)", n, len(allowed), formatCPUs(allowed))
		}
		return allowed[:n], nil
	}
	cpus, err := parseCPUs(set)
	if err != nil {
		return nil, err
	}
	var outside []int
	for _, cpu := range cpus {
		if !slices.Contains(allowed, cpu) {
			outside = append(outside, cpu)
		}
	}
	if len(outside) > 0 {
		return nil, fmt.Errorf("CPU %s may not be used here, only %s (this machine's CPUs, and the cpuset and affinity of tare)", formatCPUs(outside), formatCPUs(allowed))
	}
	return cpus, nil
}

// parseCPUs reads cpuset(7)'s list format.
func parseCPUs(list string) ([]int, error) {
	var cpus []int
	for part := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(low)
		b := a
		if err == nil && isRange {
			b, err = strconv.Atoi(high)
		}
		if err != nil || b < a {
			return nil, fmt.Errorf("%q is no list of CPUs", list)
		}
		for cpu := a; cpu <= b; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}

// formatCPUs writes CPUs, ascending, in cpuset(7)'s list format.
func formatCPUs(cpus []int) string {
	var parts []string
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		part := strconv.Itoa(cpus[i])
		if j > i {
			part += "-" + strconv.Itoa(cpus[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// distinctLevels are the study's levels without those that come to the same, on
// this machine, as one before them, which names them instead; notes say so. The
// jobs must be settled.
func (p *Plan) distinctLevels(allowed []int) []study.Limits {
	var levels []study.Limits
	for _, l := range p.Manifest.Study.Limits {
		i := slices.IndexFunc(levels, func(before study.Limits) bool { return p.sameLevel(before, l, allowed) })
		if i < 0 {
			levels = append(levels, l)
			continue
		}
		levels[i].Same = append(slices.Clone(levels[i].Same), append([]string{l.Name}, l.Same...)...)
	}
	for _, l := range levels {
		if len(l.Same) > 0 {
			p.Notes = append(p.Notes, fmt.Sprintf("%s is measured for %s, too: with CPU %s they come to the same",
				l.Name, strings.Join(l.Same, ", "), cmp.Or(p.cpusets[l.CPUSet], formatCPUs(allowed))))
		}
	}
	return levels
}

// sameLevel says whether an instance gets the same at two levels, and each
// workload runs the same there.
func (p *Plan) sameLevel(a, b study.Limits, allowed []int) bool {
	plain := func(l study.Limits) study.Limits {
		l.CPUSet = cmp.Or(p.cpusets[l.CPUSet], formatCPUs(allowed))
		l.Name, l.Params, l.Same = "", nil, nil
		return l
	}
	if !reflect.DeepEqual(plain(a), plain(b)) {
		return false
	}
	return !slices.ContainsFunc(p.Manifest.Study.Workloads, func(w study.Workload) bool {
		x, y := p.jobs[jobKey{w.Name, a.Name}], p.jobs[jobKey{w.Name, b.Name}]
		return !reflect.DeepEqual(x.Command, y.Command)
	})
}

// allCPUs stands in a whole-number parameter for the number of CPUs.
const allCPUs = "cpus"

// levelJob resolves a workload at a level that may use so many CPUs.
func levelJob(st study.Study, w study.Workload, l study.Limits, cpus int) (workload.Job, error) {
	kind, err := workload.ByKind(w.Kind)
	if err != nil {
		return workload.Job{}, err
	}
	types := map[string]workload.Type{}
	for _, p := range kind.Params() {
		types[p.Name] = p.Type
	}
	params := st.ParamsOf(w, l, func(name string) bool { return types[name] != "" })
	for name, value := range params {
		if value == allCPUs && types[name] == workload.Integer {
			params[name] = strconv.Itoa(cpus)
		}
	}
	return workload.Resolve(w.Kind, params, w.Args)
}

// knownParams refuses a parameter, of the study or of a level, that no kind of
// workload has: it would say something and do nothing.
func knownParams(st study.Study) error {
	var names []string
	for _, kind := range workload.All() {
		for _, p := range kind.Params() {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	errs := []error{checkNames("params", st.Params, names)}
	for i, l := range st.Limits {
		errs = append(errs, checkNames(fmt.Sprintf("limits[%d].params", i), l.Params, names))
	}
	return errors.Join(errs...)
}

func checkNames(where string, params map[string]string, known []string) error {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if slices.Contains(known, name) {
			continue
		}
		if near := study.Nearest(name, known); near != "" {
			return fmt.Errorf("%s: no workload has a parameter %q: did you mean %q?", where, name, near)
		}
		return fmt.Errorf("%s: no workload has a parameter %q: there are %s", where, name, strings.Join(known, ", "))
	}
	return nil
}

// instanceMemory is what an instance needs beside its payload: runc's init and
// what the kernel keeps for it, the largest among the targets that share the
// host's kernel.
const instanceMemory = 16 << 20

// checkMemory refuses cells that need more memory than there is, before the
// machine starts to swap or to kill, and notes those that are allowed more.
func (p *Plan) checkMemory() error {
	available, err := availableMemory()
	if err != nil {
		return err
	}
	for _, c := range p.Manifest.Cells {
		if p.many(c) {
			continue // fitMany knows them better
		}
		own := p.jobOf(c).Memory
		each := int64(instanceMemory)
		if d, ok := p.drivers[c.Target]; ok {
			each = max(each, int64(d.Properties().Footprint.Memory))
		}
		if need := int64(c.Copies) * (each + own); need > available {
			return &InputError{fmt.Errorf("cell %s does not fit into memory: %d instances x (%s of their own + %s for %s) = %s, and %s are available; take fewer instances",
				c.ID, c.Copies, units.BytesSize(float64(each)), units.BytesSize(float64(own)), c.Workload, units.BytesSize(float64(need)), units.BytesSize(float64(available)))}
		}
		if most := float64(c.Copies) * float64(c.Limits.Memory); most > float64(available) && !c.AA {
			p.Notes = append(p.Notes, fmt.Sprintf("cell %s: %d instances may take %s each, %s in all, and %s are available: if they do, the machine swaps or kills",
				c.ID, c.Copies, units.BytesSize(float64(c.Limits.Memory)), units.BytesSize(most), units.BytesSize(float64(available))))
		}
	}
	return nil
}

// availableMemory is what instances can have: without swapping, and within the limits
// of the groups above them.
func availableMemory() (int64, error) {
	available, err := hostMemory()
	for _, g := range limitsAbove(driver.Label, "memory") {
		if left, ok := g.left(); ok {
			available = min(available, left)
		}
	}
	return available, err
}

// hostMemory is what the machine has without swapping (MemAvailable, proc(5)).
func hostMemory() (int64, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, fmt.Errorf("available memory: %w", err)
	}
	m, err := proc.Meminfo()
	if err != nil {
		return 0, fmt.Errorf("available memory: %w", err)
	}
	if m.MemAvailableBytes == nil {
		return 0, errors.New("available memory: /proc/meminfo has no MemAvailable")
	}
	return int64(*m.MemAvailableBytes), nil
}

// networkOf is a level's network as a driver takes it.
func networkOf(n *study.Network) driver.Network {
	if n == nil {
		return driver.Network{}
	}
	return driver.Network{Containers: n.Containers, Neighbours: n.Neighbours, Chatter: n.Chatter, MTU: n.MTU,
		Offload: n.Offload, RPS: n.RPS, Limit: n.Limit, Range: n.Range, Pin: n.Pin}
}

// limitsOf are a level's limits as a driver takes them.
func limitsOf(l study.Limits) driver.Limits {
	return driver.Limits{CPUs: l.CPUs, CPUSet: l.CPUSet, Memory: l.Memory, Pids: l.Pids}
}
