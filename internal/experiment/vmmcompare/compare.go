package vmmcompare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/vmm"
)

// comparison is what a run says of machine monitors, beside what was published
// of StratoVirt and QEMU.
type comparison struct {
	Citation string            `json:"citation"`
	Targets  []string          `json:"targets"` // that gave numbers, in the study's order
	Host     string            `json:"host"`    // the control
	Accels   map[string]string `json:"accels"`  // what ran a virtual machine's CPU, by target: "kvm" or "tcg"
	// Pairs are StratoVirt and QEMU with one machine type each, where both gave
	// numbers: machine types are never crossed.
	Pairs      []pair          `json:"pairs"`
	CannotHere string          `json:"cannotHere,omitempty"` // why StratoVirt gave no numbers, where it was asked for
	Rows       []comparedRow   `json:"rows"`
	Boots      []machineBoot   `json:"boots"`
	Held       []heldInstance  `json:"held"`
	Factors    []factor        `json:"factors"`
	Claims     []finding.Claim `json:"claims"`
	Findings   []string        `json:"findings"`
	// kernels are StratoVirt by QEMU in the guest kernel's own time, by machine type;
	// userspaces and totals the same in what systemd reports, of guests that have it.
	kernels, userspaces, totals map[string]analysis.Effect
	withins                     map[withinOf]analysis.Effect
}

// twoWorkloads are two workloads of one target, whose quotient was published.
type twoWorkloads struct{ workload, by, metric string }

// withinOf is their quotient on a target.
type withinOf struct {
	target string
	twoWorkloads
}

// within are the sequential accesses by the random ones, and 40 MB of files by 20.
var within = []twoWorkloads{
	{"throughput-seqrd", "throughput-rndrd", sample.ReadThroughput},
	{"throughput-seqwr", "throughput-rndwr", sample.WriteThroughput},
	{"throughput-rndrd-40m", "throughput-rndrd", sample.ReadThroughput},
}

// pair is StratoVirt and QEMU with one machine type.
type pair struct {
	Machine    string `json:"machine"` // "microvm"
	StratoVirt string `json:"stratovirt"`
	QEMU       string `json:"qemu"`
	Refused    string `json:"refused,omitempty"` // why the two have no ratio
}

// comparedRow is one published quantity: both monitors' published means and what the
// targets gave here.
type comparedRow struct {
	Table    tableName     `json:"table"`
	Name     string        `json:"name"` // "4 threads", "rndrd"
	Metric   sample.Metric `json:"metric"`
	workload string
	Here     map[string]stats.Estimate `json:"here"` // by target: medians, in the metric's unit
	// Published means over the runs, in the metric's unit; 0 where the source
	// cut them to 0.
	PublishedStratoVirt float64 `json:"publishedStratoVirt"`
	PublishedQEMU       float64 `json:"publishedQEMU"`
	// Ratios are StratoVirt by QEMU here, within blocks, by machine type: pairs
	// that are refused have none. ToHost is each virtual machine by the host.
	Ratios map[string]analysis.Effect `json:"ratios"`
	ToHost map[string]analysis.Effect `json:"toHost"`
}

// PublishedRatio is StratoVirt by QEMU as published; 0 where there is none.
func (r comparedRow) PublishedRatio() float64 {
	if r.PublishedQEMU <= 0 || r.PublishedStratoVirt <= 0 {
		return 0
	}
	return r.PublishedStratoVirt / r.PublishedQEMU
}

// machineBoot is one boot, taken apart.
type machineBoot struct {
	Name      string         `json:"name"` // a target, or a published monitor
	Published bool           `json:"published,omitempty"`
	Phases    []bootPhase    `json:"phases"`        // one after another
	Total     stats.Estimate `json:"total"`         // seconds
	Own       []bootPhase    `json:"own,omitempty"` // the guest's split by its own clock, which starts with its kernel; none where it tells none
	// OwnTotal is the sum that systemd reports of Own, in seconds; 0 for a guest without it.
	OwnTotal float64 `json:"ownTotal,omitempty"`
	Off      float64 `json:"off,omitempty"` // seconds until the VMM had ended; 0 where that was not seen
	// Short: the boots end with the last phase, and no payload ran after it.
	Short bool `json:"short,omitempty"`
	// Refused says why the machine was too noisy for a claim about boots.
	Refused string `json:"refused,omitempty"`
}

// bootPhase is a part of a boot.
type bootPhase struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"` // difference of neighbouring marks' medians: these telescope
}

// bootMarks are the marks of a boot in their order, as metrics (seconds since
// the request), with what lies before each.
var bootMarks = []struct{ metric, phase string }{
	{sample.VMMExecuted, "request to VMM"},
	{sample.VMMReady, "VMM"},
	{sample.Firmware, "to the firmware's first line"},
	{sample.KernelByte, "loading the kernel"},
	{sample.KernelBanner, "to the kernel's banner"},
	{sample.GuestInit, "kernel"},
	{sample.RootUp, "initrd"},
	{sample.Agent, "/init"}, // of a guest with systemd its userspace
	{sample.Ready, "payload"},
}

// guestMarks are the same by the guest's own clock; the first is what systemd-analyze
// calls the kernel's time, as published.
var guestMarks = []struct{ metric, phase string }{{sample.GuestKernel, "kernel"}, {sample.GuestAgent, "/init"}}

// systemdParts are what systemd reports of its own start, as published.
var systemdParts = []struct{ metric, phase string }{{sample.SystemdKernel, "kernel"}, {sample.SystemdInitrd, "initrd"}, {sample.SystemdUserspace, "userspace"}}

// emulatedCPU is the accel of a guest whose CPU is emulated.
const emulatedCPU = string(vmm.TCG)

// bootWorkload is the workload whose trials are boots.
const bootWorkload = "boot"

// describe puts a run beside the publication. tables are the run's own (Analyze), kernels
// the files that guests' kernels were made of, by target, as far as the run says.
func describe(in analysis.Input, tables []analysis.Table, control string, kernels map[string]string, d *source) (*comparison, error) {
	in = in.WithDefaults()
	c := &comparison{Citation: d.Citation, Host: control, Accels: in.Accels}
	s := reader{in: in, tables: tables, cells: map[[2]string]study.Cell{}}
	for _, cell := range in.Cells {
		if cell.AA {
			continue
		}
		if at := [2]string{cell.Target, cell.Workload}; s.cells[at].ID == "" {
			s.cells[at] = cell // of several levels the first stands beside the publication
		}
		if !slices.Contains(c.Targets, cell.Target) && in.Measured(cell.ID) {
			c.Targets = append(c.Targets, cell.Target)
		}
	}
	c.Pairs = pairsOf(c.Targets, in.Accels, kernels)
	for _, r := range publishedRows(d) {
		c.Rows = append(c.Rows, s.row(c, r))
	}
	c.Boots = append(s.boots(c), publishedBoots(d)...)
	c.Held, c.Factors = s.held(), s.factors()
	c.kernels = s.ratios(c.Pairs, bootWorkload, sample.GuestKernel)
	c.userspaces = s.ratios(c.Pairs, bootWorkload, sample.SystemdUserspace)
	c.totals = s.ratios(c.Pairs, bootWorkload, sample.SystemdTotal)
	c.withins = s.withins(c.Targets)
	c.Findings = findings(c)
	var err error
	c.Claims, err = c.claims(d)
	return c, err
}

// pairsOf are StratoVirt and QEMU by machine type. Where one was emulated and the
// other was not, or that is not known, a ratio would be of CPU and emulator; of two
// kernels, it would be of those.
func pairsOf(targets []string, accels, kernels map[string]string) []pair {
	var out []pair
	for _, machine := range []string{"microvm", "q35", "virt"} {
		p := pair{Machine: machine, StratoVirt: "stratovirt/" + machine, QEMU: "qemu/" + machine}
		if !slices.Contains(targets, p.StratoVirt) || !slices.Contains(targets, p.QEMU) {
			continue
		}
		if s, q := accels[p.StratoVirt], accels[p.QEMU]; s == "" || s != q {
			p.Refused = fmt.Sprintf("%s ran under %s and %s under %s, which are never compared as if they were one",
				p.StratoVirt, cmp.Or(strings.ToUpper(s), "an acceleration not known"), p.QEMU, cmp.Or(strings.ToUpper(q), "one not known"))
		}
		if s, q := kernels[p.StratoVirt], kernels[p.QEMU]; p.Refused == "" && s != "" && q != "" && s != q {
			p.Refused = fmt.Sprintf("%s booted another kernel than %s, so that a ratio would be of the two kernels: give all machines one with --kernel", p.StratoVirt, p.QEMU)
		}
		out = append(out, p)
	}
	return out
}

// Measured reports whether any of a monitor's targets gave numbers.
func (c *comparison) Measured(monitor string) bool {
	return slices.ContainsFunc(c.Targets, func(t string) bool { return strings.HasPrefix(t, monitor+"/") })
}

// virtual reports whether a target is a virtual machine's.
func virtual(target string) bool {
	monitor, _, _ := strings.Cut(target, "/")
	return slices.Contains([]string{"qemu", "stratovirt", "firecracker", "cloud-hypervisor"}, monitor)
}

// reader finds a run's numbers.
type reader struct {
	in     analysis.Input
	tables []analysis.Table
	cells  map[[2]string]study.Cell // by target and workload
}

func (s reader) series(target, workload, metric string) analysis.Series {
	cell, ok := s.cells[[2]string{target, workload}]
	if !ok {
		return analysis.Series{}
	}
	return s.in.Series(cell.ID, metric)
}

func (s reader) estimate(b analysis.Series, names ...string) (stats.Estimate, bool) {
	if b.Len() == 0 {
		return stats.Estimate{}, false
	}
	return stats.OfMedian(b.Values(), stats.Source(s.in.Seed, names...)), true
}

// table is that of a target's cell and a metric; an empty one where there is none.
func (s reader) table(target, workload, metric string) analysis.Table {
	return s.groupTable(s.cells[[2]string{target, workload}].Group, metric)
}

// groupTable is that of a group and a metric; an empty one where there is none.
func (s reader) groupTable(group, metric string) analysis.Table {
	for _, t := range s.tables {
		if t.Group == group && t.Metric.Name == metric {
			return t
		}
	}
	return analysis.Table{}
}

// ratios sets StratoVirt against QEMU with each machine type, by the rules of the
// run's tables: their refusal, and a level for all pairs together.
func (s reader) ratios(pairs []pair, workload, metric string) map[string]analysis.Effect {
	found := map[string]*analysis.Contrast{}
	for _, p := range pairs {
		of, to := s.place(p.StratoVirt, workload, metric), s.place(p.QEMU, workload, metric)
		if p.Refused == "" && of.Cell != "" && to.Cell != "" {
			found[p.Machine] = s.in.Contrast(s.tables, of, to)
		}
	}
	analysis.JudgeTogether(slices.Collect(maps.Values(found)))
	out := map[string]analysis.Effect{}
	for machine, c := range found {
		if e := c.Effect(); e != nil && e.Ratio > 0 {
			out[machine] = *e
		}
	}
	return out
}

// withins sets the workloads of each virtual machine against each other.
func (s reader) withins(targets []string) map[withinOf]analysis.Effect {
	found := map[withinOf]*analysis.Contrast{}
	for _, target := range targets {
		for _, w := range within {
			of, to := s.place(target, w.workload, w.metric), s.place(target, w.by, w.metric)
			if !virtual(target) || of.Cell == "" || to.Cell == "" {
				continue
			}
			if c := s.in.Contrast(s.tables, of, to); c != nil {
				found[withinOf{target, w}] = c
			}
		}
	}
	analysis.JudgeTogether(slices.Collect(maps.Values(found)))
	out := map[withinOf]analysis.Effect{}
	for at, c := range found {
		if e := c.Effect(); e != nil && e.Ratio > 0 {
			out[at] = *e
		}
	}
	return out
}

// place is a metric of a target's cell; an empty one where there is none.
func (s reader) place(target, workload, metric string) analysis.Place {
	c := s.cells[[2]string{target, workload}]
	return analysis.Place{Cell: c.ID, Group: c.Group, Metric: metric}
}

func (s reader) row(c *comparison, r publishedRow) comparedRow {
	row := comparedRow{Table: r.table, Name: r.name, Metric: r.metric, workload: r.workload, PublishedStratoVirt: r.stratovirt, PublishedQEMU: r.qemu,
		Here: map[string]stats.Estimate{}, Ratios: s.ratios(c.Pairs, r.workload, r.metric.Name), ToHost: map[string]analysis.Effect{}}
	for _, target := range c.Targets {
		if e, ok := s.estimate(s.series(target, r.workload, r.metric.Name), "vmm", target, r.workload, r.metric.Name); ok {
			row.Here[target] = e
		}
		if !virtual(target) {
			continue
		}
		for _, line := range s.table(target, r.workload, r.metric.Name).Rows {
			if line.Target == target && line.Effect != nil && line.Effect.Ratio > 0 {
				row.ToHost[target] = *line.Effect
			}
		}
	}
	return row
}

// boots takes the boots of virtual machines apart by their marks.
func (s reader) boots(c *comparison) []machineBoot {
	var out []machineBoot
	for _, target := range c.Targets {
		if !virtual(target) {
			continue
		}
		b := machineBoot{Name: target, Refused: s.table(target, bootWorkload, bootMarks[len(bootMarks)-1].metric).Refused}
		b.Own, b.OwnTotal = s.ownBoot(target)
		last := 0.
		for _, m := range bootMarks {
			at, ok := s.estimate(s.series(target, bootWorkload, m.metric), "boot", target, m.metric)
			if !ok {
				continue
			}
			if m.metric == sample.Agent && b.OwnTotal > 0 {
				m.phase = "userspace"
			}
			b.Phases = append(b.Phases, bootPhase{m.phase, at.Value - last})
			last, b.Total = at.Value, at
			b.Short = m.metric != sample.Ready
		}
		if off, ok := s.estimate(s.series(target, bootWorkload, sample.PoweredOff), "boot", target, sample.PoweredOff); ok {
			b.Off = off.Value
		}
		if len(b.Phases) > 0 {
			out = append(out, b)
		}
	}
	return out
}

// ownBoot is the guest's split by its own clock: what systemd reports, with its total,
// where the guest has it, else its agent's moments.
func (s reader) ownBoot(target string) (own []bootPhase, total float64) {
	took := func(metric string) (float64, bool) {
		e, ok := s.estimate(s.series(target, bootWorkload, metric), "boot", target, metric)
		return e.Value, ok
	}
	if total, ok := took(sample.SystemdTotal); ok {
		for _, m := range systemdParts {
			if v, ok := took(m.metric); ok {
				own = append(own, bootPhase{m.phase, v})
			}
		}
		return own, total
	}
	last := 0.
	for _, m := range guestMarks {
		if at, ok := took(m.metric); ok {
			own = append(own, bootPhase{m.phase, at - last})
			last = at
		}
	}
	return own, 0
}

// publishedBoots are the published means.
func publishedBoots(d *source) []machineBoot {
	boot := func(name string, all [][]float64, phases ...string) machineBoot {
		b := machineBoot{Name: name, Published: true}
		total := make([]float64, 0, len(all))
		for i, phase := range phases {
			b.Phases = append(b.Phases, bootPhase{phase, average(all, func(r []float64) float64 { return r[i] })})
		}
		for _, r := range all {
			total = append(total, r[len(phases)])
		}
		b.Total = stats.Estimate{Value: stat.Mean(total, nil), Interval: stats.None(stat.Mean(total, nil))}
		return b
	}
	return []machineBoot{
		boot("StratoVirt, published", d.Boot.StratoVirt, "kernel", "userspace"),
		boot("QEMU, published", d.Boot.QEMU, "kernel", "initrd", "userspace"),
	}
}

// findings says in words what the run shows.
func findings(c *comparison) []string {
	var out []string
	for _, b := range c.Boots {
		if b.Published {
			continue
		}
		longest := slices.MaxFunc(b.Phases, func(x, y bootPhase) int { return cmp.Compare(x.Seconds, y.Seconds) })
		to := "the payload"
		if b.Short {
			to = "/init, where its boots end"
		}
		text := fmt.Sprintf("%s: from the request to "+to+" %.2f s%s; by the medians of its marks the longest part is %q with %.2f s.",
			c.under(b.Name), b.Total.Value, quantity.Span(b.Total, "%.2f", 1), longest.Name, longest.Seconds)
		if b.Refused != "" {
			text += " No claim is made of boots: " + b.Refused
		}
		out = append(out, text)
	}
	for _, p := range c.Pairs {
		if p.Refused != "" {
			out = append(out, capital(p.Refused)+": the table has no ratio of the two.")
		}
	}
	out = append(out, heldFindings(c)...)
	for _, r := range c.Rows {
		if !telling(r) {
			continue
		}
		what := fmt.Sprintf("%s, %s, %s: ", r.Table, r.Name, r.Metric.Name)
		for _, target := range c.Targets {
			if e, ok := r.ToHost[target]; ok && c.Accels[target] != emulatedCPU {
				out = append(out, what+toldEffect(e, target, "the host")+".")
			}
		}
		for _, p := range c.Pairs {
			if e, ok := r.Ratios[p.Machine]; ok {
				out = append(out, what+toldEffect(e, c.under(p.StratoVirt), c.under(p.QEMU))+fmt.Sprintf("; %.3g times as published.", r.PublishedRatio()))
			}
		}
	}
	for _, target := range c.Targets {
		if told := c.emulated(target); told != "" {
			out = append(out, told)
		}
	}
	return out
}

// emulated says once what was seen of an emulated machine beside the host, of
// which nothing can be claimed; "" of another target.
func (c *comparison) emulated(target string) string {
	if c.Accels[target] != emulatedCPU {
		return ""
	}
	var seen []string
	for _, r := range c.Rows {
		if e, ok := r.ToHost[target]; ok && telling(r) {
			seen = append(seen, fmt.Sprintf("%.3g in %s (%s, %s)", e.Ratio, r.Table, r.Name, r.Metric.Name))
		}
	}
	if len(seen) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: no claim is made beside the host, for the ratios are the emulator's; seen were %s times the host's.",
		c.under(target), strings.Join(seen, ", "))
}

// under names a target, and that its CPU was emulated where it was.
func (c *comparison) under(target string) string {
	if c.Accels[target] == emulatedCPU {
		return target + " (emulated, TCG)"
	}
	return target
}

// toldEffect words an effect by its verdict.
func toldEffect(e analysis.Effect, of, to string) string {
	ratio := fmt.Sprintf("%.3g times%s", e.Ratio, quantity.Span(stats.Estimate{Value: e.Ratio, Interval: e.Interval}, "%.3g", 1))
	switch {
	case e.Verdict.Shown():
		return fmt.Sprintf("%s gives %s what %s does", of, ratio, to)
	case e.Verdict == analysis.Same:
		return fmt.Sprintf("%s gives as much as %s within the margin, %s", of, to, ratio)
	case e.Verdict == analysis.NotComparable:
		return fmt.Sprintf("no claim of %s beside %s (%s seen). %s", of, to, ratio, strings.TrimSuffix(e.Why, "."))
	}
	return fmt.Sprintf("%s beside %s is open, %s with %d blocks", of, to, ratio, e.Blocks)
}

// telling are the rows that stand for their table among the findings.
func telling(r comparedRow) bool {
	return slices.Contains([]string{
		string(tableCPU) + "/1 thread/events", string(tableMemory) + "/1 KiB, seq/throughput",
		string(tableThroughput) + "/rndrd/read-throughput", string(tableIOPS) + "/rndwr/writes",
	}, string(r.Table)+"/"+r.Name+"/"+r.Metric.Name)
}

// capital is a text that begins a sentence.
func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
