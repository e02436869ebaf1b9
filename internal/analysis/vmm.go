package analysis

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/published"
)

// VMMClaims is what a run says of machine monitors, beside what was published
// of StratoVirt and QEMU.
type VMMClaims struct {
	Citation string   `json:"citation"`
	Targets  []string `json:"targets"` // that gave numbers, in the study's order
	Host     string   `json:"host"`    // the control
	// StratoVirt and QEMU are the targets that stand for the published two: of
	// one machine type where both have one. "" where none gave numbers.
	StratoVirt string         `json:"stratovirt,omitempty"`
	CannotHere string         `json:"cannotHere,omitempty"` // why StratoVirt gave no numbers
	QEMU       string         `json:"qemu,omitempty"`
	Rows       []VMMRow       `json:"rows"`
	Boots      []VMMBoot      `json:"boots"`
	Claims     []CheckedClaim `json:"claims"`
	Findings   []string       `json:"findings"`
}

// VMMRow is one published quantity: both monitors' published means and what the
// targets gave here.
type VMMRow struct {
	Table  VMMTable            `json:"table"`
	Name   string              `json:"name"` // "4 threads", "rndrd"
	Metric sample.Metric       `json:"metric"`
	Here   map[string]Estimate `json:"here"` // by target: medians, in the metric's unit
	// Published means over the runs, in the metric's unit; 0 where the source
	// cut them to 0.
	PublishedStratoVirt float64 `json:"publishedStratoVirt"`
	PublishedQEMU       float64 `json:"publishedQEMU"`
	// Ratio is StratoVirt by QEMU here, within blocks; ToHost is each virtual
	// machine by the host.
	Ratio  *Estimate           `json:"ratio,omitempty"`
	ToHost map[string]Estimate `json:"toHost"`
}

// PublishedRatio is StratoVirt by QEMU as published; 0 where there is none.
func (r VMMRow) PublishedRatio() float64 {
	if r.PublishedQEMU <= 0 || r.PublishedStratoVirt <= 0 {
		return 0
	}
	return r.PublishedStratoVirt / r.PublishedQEMU
}

// VMMBoot is one boot, taken apart.
type VMMBoot struct {
	Name      string     `json:"name"` // a target, or a published monitor
	Published bool       `json:"published,omitempty"`
	Phases    []VMMPhase `json:"phases"` // one after another
	Total     Estimate   `json:"total"`  // seconds
}

// VMMPhase is a part of a boot.
type VMMPhase struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"` // difference of neighbouring marks' medians: these telescope
}

// bootMarks are the marks of a boot in their order, as metrics (seconds since
// the request), with what lies before each.
var bootMarks = []struct{ metric, phase string }{
	{"vmm", "request to VMM"},
	{"vmm-ready", "VMM"},
	{"kernel-byte", "loading the kernel"},
	{"kernel", "to the kernel's banner"},
	{"init", "kernel"},
	{"agent", "/init"},
	{"ready", "payload"},
}

// bootWorkload is the workload whose trials are boots, footprintWorkload that
// whose trials are held and counted.
const bootWorkload = "boot"

// VMMStudy puts a run beside the publication.
func VMMStudy(in Input, control string, d *published.StratoVirtQEMU) *VMMClaims {
	in = in.defaults()
	c := &VMMClaims{Citation: d.Citation, Host: control}
	s := vmmStudy{in: in, cells: map[[2]string]string{}}
	for _, cell := range in.Cells {
		if cell.AA {
			continue
		}
		s.cells[[2]string{cell.Target, cell.Workload}] = cell.ID
		if col := in.Data.cells[cell.ID]; !slices.Contains(c.Targets, cell.Target) && col != nil && len(col.blocks) > 0 {
			c.Targets = append(c.Targets, cell.Target)
		}
	}
	c.StratoVirt, c.QEMU = representatives(c.Targets)
	for _, r := range vmmRows(d) {
		c.Rows = append(c.Rows, s.row(c, r))
	}
	c.Boots = append(s.boots(c), publishedBoots(d)...)
	c.Claims = vmmPublishedClaims(d, c)
	c.Findings = vmmFindings(c)
	return c
}

// representatives are the StratoVirt and the QEMU to set against each other.
func representatives(targets []string) (stratovirt, qemu string) {
	for _, machine := range []string{"microvm", "q35", "virt"} {
		s, q := "stratovirt/"+machine, "qemu/"+machine
		switch hasS, hasQ := slices.Contains(targets, s), slices.Contains(targets, q); {
		case hasS && hasQ:
			return s, q
		case hasQ && qemu == "":
			qemu = q
		case hasS && stratovirt == "":
			stratovirt = s
		}
	}
	return stratovirt, qemu
}

// virtual reports whether a target is a virtual machine's.
func virtual(target string) bool {
	vmm, _, _ := strings.Cut(target, "/")
	return slices.Contains([]string{"qemu", "stratovirt", "firecracker", "cloud-hypervisor"}, vmm)
}

// vmmStudy finds a run's numbers.
type vmmStudy struct {
	in    Input
	cells map[[2]string]string // target and workload -> cell
}

func (s vmmStudy) series(target, workload, metric string) blockSeries {
	id, ok := s.cells[[2]string{target, workload}]
	if !ok {
		return blockSeries{}
	}
	return s.in.Data.cells[id].series(metric)
}

func (s vmmStudy) estimate(b blockSeries, names ...string) (Estimate, bool) {
	if len(b.values) == 0 {
		return Estimate{}, false
	}
	x := sorted(slices.Clone(b.values))
	return Estimate{median(x), medianIntervals(x, source(s.in.Seed, names...), 0.95)[0]}, true
}

func (s vmmStudy) ratio(of, to, workload, metric string) *Estimate {
	a, b := s.series(of, workload, metric), s.series(to, workload, metric)
	e := compare(a, b, source(s.in.Seed, "vmm", of, to, workload, metric)).effect
	if e.Blocks == 0 || e.Ratio == 0 {
		return nil
	}
	return &Estimate{e.Ratio, e.Interval}
}

func (s vmmStudy) row(c *VMMClaims, r vmmRow) VMMRow {
	row := VMMRow{Table: r.table, Name: r.name, Metric: r.metric, PublishedStratoVirt: r.stratovirt, PublishedQEMU: r.qemu,
		Here: map[string]Estimate{}, ToHost: map[string]Estimate{}}
	for _, target := range c.Targets {
		if e, ok := s.estimate(s.series(target, r.workload, r.metric.Name), "vmm", target, r.workload, r.metric.Name); ok {
			row.Here[target] = e
		}
		if !virtual(target) {
			continue
		}
		if e := s.ratio(target, c.Host, r.workload, r.metric.Name); e != nil {
			row.ToHost[target] = *e
		}
	}
	if c.StratoVirt != "" && c.QEMU != "" {
		row.Ratio = s.ratio(c.StratoVirt, c.QEMU, r.workload, r.metric.Name)
	}
	return row
}

// boots takes the boots of virtual machines apart by their marks.
func (s vmmStudy) boots(c *VMMClaims) []VMMBoot {
	var out []VMMBoot
	for _, target := range c.Targets {
		if !virtual(target) {
			continue
		}
		b := VMMBoot{Name: target}
		last := 0.
		for _, m := range bootMarks {
			at, ok := s.estimate(s.series(target, bootWorkload, m.metric), "boot", target, m.metric)
			if !ok {
				continue
			}
			b.Phases = append(b.Phases, VMMPhase{m.phase, at.Value - last})
			last, b.Total = at.Value, at
		}
		if len(b.Phases) > 0 {
			out = append(out, b)
		}
	}
	return out
}

// publishedBoots are the published means.
func publishedBoots(d *published.StratoVirtQEMU) []VMMBoot {
	boot := func(name string, all [][]float64, phases ...string) VMMBoot {
		b := VMMBoot{Name: name, Published: true}
		total := make([]float64, 0, len(all))
		for i, phase := range phases {
			b.Phases = append(b.Phases, VMMPhase{phase, average(all, func(r []float64) float64 { return r[i] })})
		}
		for _, r := range all {
			total = append(total, r[len(phases)])
		}
		b.Total = Estimate{stat.Mean(total, nil), none(stat.Mean(total, nil))}
		return b
	}
	return []VMMBoot{
		boot("StratoVirt, published", d.Boot.StratoVirt, "kernel", "userspace"),
		boot("QEMU, published", d.Boot.QEMU, "kernel", "initrd", "userspace"),
	}
}

// vmmFindings says in words what the run shows.
func vmmFindings(c *VMMClaims) []string {
	var out []string
	for _, b := range c.Boots {
		if b.Published {
			continue
		}
		longest := slices.MaxFunc(b.Phases, func(x, y VMMPhase) int { return int((x.Seconds - y.Seconds) * 1e9) })
		out = append(out, fmt.Sprintf("%s: from the request to the payload %.2f s%s, of which the longest part is %q with %.2f s.", b.Name, b.Total.Value, span(b.Total, "%.2f", 1), longest.Name, longest.Seconds))
	}
	for _, r := range c.Rows {
		if !telling(r) {
			continue
		}
		for _, target := range c.Targets {
			if e, ok := r.ToHost[target]; ok {
				out = append(out, fmt.Sprintf("%s, %s, %s: %s gives %.3g times the host's%s.", r.Table, r.Name, r.Metric.Name, target, e.Value, span(e, "%.3g", 1)))
			}
		}
		if r.Ratio != nil {
			out = append(out, fmt.Sprintf("%s, %s, %s: StratoVirt by QEMU %.3g%s here, %.3g as published.", r.Table, r.Name, r.Metric.Name, r.Ratio.Value, span(*r.Ratio, "%.3g", 1), r.PublishedRatio()))
		}
	}
	return out
}

// telling are the rows that stand for their table among the findings.
func telling(r VMMRow) bool {
	return slices.Contains([]string{
		string(VMMCPU) + "/1 threads/events", string(VMMMemory) + "/1 KiB, seq/throughput",
		string(VMMThroughput) + "/rndrd/read-throughput", string(VMMIOPS) + "/rndwr/writes",
	}, string(r.Table)+"/"+r.Name+"/"+r.Metric.Name)
}

// span is an interval in brackets, "" where there is none.
func span(e Estimate, verb string, factor float64) string {
	if e.Interval.Method == MethodNone || e.Interval.Level == 0 {
		return ""
	}
	return fmt.Sprintf(" ["+verb+", "+verb+"]", e.Interval.Low*factor, e.Interval.High*factor)
}
