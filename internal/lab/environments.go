package lab

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/preflight"
	"github.com/tarelab/tare/internal/probe"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/workload"
)

// settleJobs resolves each workload at each level, with the level's limits as
// they are on this machine.
func (p *Plan) settleJobs() error {
	allowed, err := sys.AllowedCPUs()
	if err != nil {
		return err
	}
	mems, err := sys.AllowedMems()
	if err != nil {
		return err
	}
	return p.settleLevels(allowed, mems)
}

// settleLevels is given the CPUs, and the NUMA nodes of memory, that may be used.
func (p *Plan) settleLevels(allowed, mems []int) error {
	st := p.Manifest.Study
	p.jobs, p.cpusets, p.loads = map[jobKey]workload.Job{}, map[string]string{}, map[string]loadJob{}
	p.Manifest.Evidence = map[string]sample.Evidence{}
	p.Manifest.Metrics, p.Manifest.CPUs = map[string][]sample.Metric{}, map[string]hostinfo.CPUs{}
	levels := st.Environments
	if len(levels) == 0 {
		levels = []study.Environment{{}}
	}
	for _, l := range levels {
		set, usable, err := preflight.CPUsOf(l, allowed)
		if err != nil {
			return &InputError{fmt.Errorf("study %s: %w", st.ID, err)} // preflight has read it
		}
		p.cpusets[l.CPUSet] = set
		if l.Load != nil {
			if p.loads[l.Name], err = newLoadJob(*l.Load, allowed); err != nil {
				return &InputError{fmt.Errorf("study %s: load of the environment %s: %w", st.ID, l.Name, err)}
			}
		}
		if l.CPUs == 0 {
			p.Manifest.CPUs[l.Name] = hostinfo.CPUsOf(usable)
		}
		for _, w := range st.Workloads {
			job, err := levelJob(st, w, l, len(usable))
			if err != nil {
				return &InputError{fmt.Errorf("workload %s: %w", w.Name, err)}
			}
			p.jobs[jobKey{w.Name, l.Name}] = job
			metrics := shown(job.Metrics, len(job.Peer) > 0)
			if job.Turns != nil {
				metrics = job.Metrics // what a whole trial gives says nothing of slices
				p.Manifest.Evidence[w.Name] = job.Turns.Evidence
			}
			if st.HasLoad() {
				metrics = append(slices.Clone(metrics), sample.Describe(sample.BesideRate, sample.BesideCPUs)...)
			}
			if job.Hold || len(w.Concurrency)+len(st.Concurrency) > 0 {
				metrics = manyMetrics(metrics, job.Hold)
			}
			p.Manifest.Metrics[w.Name] = firstShown(metrics, w.Metrics)
		}
	}
	if st.DistinctEnvironments {
		p.Manifest.Study.Environments = p.distinctLevels(allowed, mems)
	}
	return nil
}

// distinctLevels are the study's levels without those that come to the same, on
// this machine, as one before them, which names them instead; notes say so. The
// jobs must be settled.
func (p *Plan) distinctLevels(allowed, mems []int) []study.Environment {
	var levels []study.Environment
	for _, l := range p.Manifest.Study.Environments {
		i := slices.IndexFunc(levels, func(before study.Environment) bool { return p.sameLevel(before, l, allowed, mems) })
		if i < 0 {
			levels = append(levels, l)
			continue
		}
		levels[i].Same = append(slices.Clone(levels[i].Same), append([]string{l.Name}, l.Same...)...)
	}
	for _, l := range levels {
		if len(l.Same) > 0 {
			p.Notes = append(p.Notes, fmt.Sprintf("%s is measured for %s, too: with CPU %s they come to the same",
				l.Name, strings.Join(l.Same, ", "), cmp.Or(p.cpusets[l.CPUSet], sys.FormatCPUs(allowed))))
		}
	}
	return levels
}

// sameLevel says whether an instance gets the same at two levels, and each
// workload runs the same there.
func (p *Plan) sameLevel(a, b study.Environment, allowed, mems []int) bool {
	plain := func(l study.Environment) study.Environment {
		if nodes, err := sys.ParseCPUs(l.Mems); err == nil && slices.Equal(nodes, mems) {
			l.Mems = "" // all that there are
		}
		l.CPUSet = cmp.Or(p.cpusets[l.CPUSet], sys.FormatCPUs(allowed))
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

// levelJob resolves a workload at a level that may use so many CPUs.
func levelJob(st study.Study, w study.Workload, l study.Environment, cpus int) (workload.Job, error) {
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
		if times, ok := study.PerCPUTimes(value); ok && types[name] == workload.Integer {
			params[name] = strconv.Itoa(times * cpus)
		}
	}
	job, err := workload.Resolve(w.Kind, params, w.Args)
	if err != nil {
		return job, err
	}
	if len(w.Readings) > 0 {
		return withReadings(job, w.Readings)
	}
	if job.Turns == nil {
		return job, nil
	}
	if st.RoundsOf(w) > 0 || job.OnlyTurns() {
		return job.InTurns(), nil
	}
	job.Turns = nil // a window of its own
	return job, nil
}

// limitsOf are a level's limits as a driver takes them.
func limitsOf(l study.Environment) driver.Limits {
	return driver.Limits{CPUs: l.CPUs, CPUSet: l.CPUSet, Mems: l.Mems, Shares: l.Shares, Idle: l.Idle, Memory: l.Memory, Pids: l.Pids}
}

// shown are the metrics of a report: a workload's own and the general ones, and
// of the probes' those that say who of an instance used what, or of two ends. Moments on a clock
// are data for the analysis, and so is what probes read of the machine's noise:
// neither is a cost.
func shown(own []sample.Metric, ends bool) []sample.Metric {
	roles := []string{sample.PayloadCPU, sample.RuntimeCPU, sample.ClientCPU, sample.DaemonCPU, sample.PayloadPeak, sample.RuntimePeak}
	moments := []string{sample.UnixStart, sample.UnixEnd, sample.UnixTimed}
	all := slices.DeleteFunc(slices.Clone(own), func(m sample.Metric) bool { return slices.Contains(moments, m.Name) })
	if ends {
		roles = append(roles, sample.PeerCPU, sample.RelayCPU, sample.ClientNeighbours, sample.ServerNeighbours,
			sample.OnNetwork, sample.NFTRules, sample.IPTablesRules, sample.Proxies, sample.Resolvers)
	}
	for _, m := range probe.Metrics() {
		if slices.Contains(roles, m.Name) {
			all = append(all, m)
		}
	}
	return all
}

// firstShown puts the metrics that the study names first.
func firstShown(all []sample.Metric, names []string) []sample.Metric {
	ordered := slices.Clone(all)
	slices.SortStableFunc(ordered, func(a, b sample.Metric) int {
		return rank(names, a.Name) - rank(names, b.Name)
	})
	return ordered
}

func rank(names []string, name string) int {
	if i := slices.Index(names, name); i >= 0 {
		return i
	}
	return len(names)
}
