package kernelhistory

import (
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// machine is one machine type with its kernels, in the order of the study.
type machine struct {
	name    string
	targets []string // by kernel
}

// machinesOf are the machines that a run measured with two kernels or more.
func machinesOf(m store.Manifest) (all []machine) {
	for _, target := range m.Study.Targets {
		if _, ran := m.Targets[target]; !ran || kernelOf(target) == "" {
			continue
		}
		name, _, _ := strings.Cut(target, driver.ProgramSign)
		i := slices.IndexFunc(all, func(k machine) bool { return k.name == name })
		if i < 0 {
			i, all = len(all), append(all, machine{name: name})
		}
		all[i].targets = append(all[i].targets, target)
	}
	return slices.DeleteFunc(all, func(k machine) bool { return len(k.targets) < 2 || !bootsGuests(m, k.targets[0]) })
}

// bootsGuests tells a machine's kernel from a runtime's program: its facts name the
// kernel of its guests.
func bootsGuests(m store.Manifest, target string) bool {
	return m.Targets[target].Notes[driver.NoteGuestKernel] != ""
}

// kernelOf is the kernel in a target's name: a release, or a file's path.
func kernelOf(target string) string {
	_, kernel, _ := strings.Cut(target, driver.ProgramSign)
	kernel, _, _ = strings.Cut(kernel, study.PathSign)
	return kernel
}

// step is what changed in one number from a kernel to the next.
type step struct {
	Group   string           `json:"group"` // workload, with its environment
	Machine string           `json:"machine"`
	Metric  string           `json:"metric"`
	From    string           `json:"from"`
	To      string           `json:"to"`
	Judged  bool             `json:"judged"` // the workload's primary metric: the effect has a verdict
	Effect  *analysis.Effect `json:"effect"`
	metric  sample.Metric
}

// stepsOf compares each kernel with the one before it. The primary metrics of all steps
// of a workload are judged together, as the targets of a table are; other metrics are
// described.
func stepsOf(run experiment.Run) (all []step) {
	judged := map[string][]*analysis.Contrast{} // by group
	cells := run.Manifest().Cells
	for _, k := range machinesOf(run.Manifest()) {
		for i, target := range k.targets[1:] {
			for _, to := range cells {
				if to.Target != target || to.AA || to.Probe != "" {
					continue
				}
				j := slices.IndexFunc(cells, func(c study.Cell) bool { return c.Target == k.targets[i] && c.Group == to.Group && !c.AA })
				if j < 0 {
					continue
				}
				for n, metric := range run.Manifest().Metrics[to.Workload] {
					if n > 0 && !described(metric) {
						continue
					}
					c := run.Input.Contrast(run.Claims.Tables, place(to, metric), place(cells[j], metric))
					if c == nil {
						continue
					}
					if n == 0 {
						judged[to.Group] = append(judged[to.Group], c)
					} else {
						c.Described()
					}
					all = append(all, step{Group: to.Group, Machine: k.name, Metric: metric.Name, From: kernelOf(k.targets[i]), To: kernelOf(target),
						Judged: n == 0, Effect: c.Effect(), metric: metric})
				}
			}
		}
	}
	for _, family := range judged {
		analysis.JudgeTogether(family)
	}
	return all
}

func place(c study.Cell, m sample.Metric) analysis.Place {
	return analysis.Place{Cell: c.ID, Group: c.Group, Metric: m.Name}
}

// described are the parts of a cycle, and the kernel's own part of a boot.
func described(m sample.Metric) bool {
	return m.Name == sample.GuestKernel || strings.HasSuffix(m.Name, "-p50")
}
