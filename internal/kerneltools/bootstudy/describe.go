// Package bootstudy describes boots of several machines beside each other: stretches
// between milestones on the host's clock, what is booted, and where the time went by
// each kernel's own clock. Boots of container hosts and of a user's own machines are
// described alike.
package bootstudy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/kerneltools/bootlog"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// Input is a run of boots.
type Input struct {
	analysis.Input
	Control string
	Tables  []analysis.Table             // of the same run: what they refuse, nothing is claimed of
	Boots   map[string]Boot              // whose console was kept, by target
	Parts   map[string]map[string]string // facts of the targets: what they are made of
	// Own are a user's machines: a boot of theirs ends with a line of the console or
	// with the machine.
	Own bool
}

// Boot is one boot with its console.
type Boot struct {
	Profile *bootlog.Profile
	Values  map[string][]float64 // of its trial
	// Told is a boot of the same kernel, mostly another, whose initcalls the kernel told
	// of; nil for none.
	Told *bootlog.Profile
	// Modules are those that were loaded in the boot that told, once the engine was up
	// (/proc/modules); nil where nobody asked.
	Modules []string
}

// Description is what a run's boots say.
type Description struct {
	Control  string      `json:"control"`
	Targets  []string    `json:"targets"` // that gave numbers, the control first
	Whole    string      `json:"whole"`   // name of the span that a user waits for
	Spans    []Span      `json:"spans"`
	Parts    []Parts     `json:"parts"`
	Profiles []Profile   `json:"profiles"`
	Causes   []Subsystem `json:"subsystems"` // costs of the kernel's parts, before and after
	Findings []string    `json:"findings"`
	Refused  string      `json:"refused,omitempty"` // why nothing is claimed of this machine
}

// Span is a stretch of the boot between two marks on the host's clock.
type Span struct {
	Name    string                    `json:"name"`
	Meaning string                    `json:"meaning"` // from what to what
	Metric  sample.Metric             `json:"metric"`
	Here    map[string]stats.Estimate `json:"here"`    // by target
	Speedup map[string]stats.Estimate `json:"speedup"` // the control by the target, within blocks
	// Before and After are seconds that an experiment puts next to it; 0 for none.
	Before float64 `json:"before,omitempty"`
	After  float64 `json:"after,omitempty"`
}

// Parts are a target's kernel and initramfs.
type Parts struct {
	Target  string `json:"target"`
	What    string `json:"what"`
	Kernel  string `json:"kernel"`
	Symbols string `json:"symbols"` // of its configuration
	Image   int64  `json:"image"`   // bytes
	Initrd  int64  `json:"initrd"`  // bytes; 0 for none
	// Proof is what container hosts need of a kernel and what came of it, in the
	// order in which it was tried; empty where it was not.
	Proof []Proof `json:"proof,omitempty"`
}

// Proof is one check of a kernel.
type Proof struct {
	Check  string `json:"check"`
	Result string `json:"result"` // "ok", or what failed
}

// Good reports whether the check passed.
func (p Proof) Good() bool { return p.Result == "ok" }

// Profile is where a boot's time went by the kernel's own clock.
type Profile struct {
	Target string  `json:"target"`
	Lines  int     `json:"lines"` // of the console
	Phases []Phase `json:"phases"`
	Steps  []Step  `json:"steps"` // the costliest first
	End    float64 `json:"end"`   // seconds, of the last line
	// Began is the zero of the kernel's clock in seconds since the request; 0 where
	// nobody stamped the console.
	Began float64 `json:"began,omitempty"`
	Marks []Mark  `json:"marks,omitempty"` // of the same trial, in their order
	Units []Unit  `json:"units,omitempty"` // of systemd, in the order in which they became active
	// Processes of the same boot, the busiest first.
	Processes []Process `json:"processes,omitempty"`
	// Of another boot, which told of its initcalls:
	Calls   []Call   `json:"calls,omitempty"`   // the costliest first
	Started int      `json:"started,omitempty"` // initcalls in all
	Own     float64  `json:"own,omitempty"`     // seconds of all of them, without waits
	Symbols []Symbol `json:"symbols,omitempty"` // the costliest first; only where a kernel tree was at hand
	Modules []string `json:"modules"`           // loaded once the engine was up, by name; null where nobody asked
}

// Symbol is a Kconfig symbol with what its code cost while it started.
type Symbol struct {
	Name    string   `json:"name"`    // without CONFIG_; AlwaysBuilt for what is always built
	Own     float64  `json:"own"`     // seconds, without waits
	Calls   int      `json:"calls"`   // initcalls
	Objects []string `json:"objects"` // below the tree's root
}

// AlwaysBuilt stands in a symbol's place where an object is always built.
const AlwaysBuilt = "(always built)"

// Call is an initcall.
type Call struct {
	Name  string  `json:"name"`
	Part  string  `json:"part"`            // of the kernel
	Own   float64 `json:"own"`             // seconds, without waits
	Waits string  `json:"waits,omitempty"` // for what, and how long
	// Symbol decides whether it is built, as Symbol.Name; empty where no kernel
	// tree was at hand.
	Symbol string `json:"symbol,omitempty"`
}

// Mark is a moment of a boot on the host's clock.
type Mark struct {
	Name string  `json:"name"`
	At   float64 `json:"at"` // seconds since the request
}

// Unit is a unit of systemd, in seconds on the kernel's clock.
type Unit struct {
	Name   string  `json:"name"`
	Start  float64 `json:"start"` // Active where it has no start of its own
	Active float64 `json:"active"`
	Failed bool    `json:"failed,omitempty"`
}

// Process is a process of the guest, in seconds on the kernel's clock.
type Process struct {
	PID    int     `json:"pid"`
	Parent int     `json:"parent"`
	Name   string  `json:"name"`
	Start  float64 `json:"start"`
	End    float64 `json:"end"` // when it was seen last
	CPU    float64 `json:"cpu"` // seconds
}

// Phase is a part of a boot as the published log is cut.
type Phase struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	Lines   int     `json:"lines,omitempty"`
}

// Step is the time before a line.
type Step struct {
	At   float64 `json:"at"`   // seconds, of the line
	Took float64 `json:"took"` // seconds
	Line string  `json:"line"`
	Part string  `json:"part"` // of the kernel; else who wrote the line
}

// Subsystem is a part of the kernel, per target: what its console holds of it,
// and, only of targets of which a boot told, its initcalls. The two times are of
// different clocks and never stand in one column.
type Subsystem struct {
	Name  string             `json:"name"`
	Lines map[string]int     `json:"lines"`
	Steps map[string]float64 `json:"steps"` // seconds before its lines
	Calls map[string]int     `json:"calls"`
	Own   map[string]float64 `json:"own"` // seconds of its initcalls, without waits
}

// The stretch that a user waits for: of a container host, and of a user's own machine.
const (
	FirstContainer = "first container"
	Until          = "until"
)

// stretches are what a boot is cut into, and those that a user waits for. Without a
// beginning they count from the request.
var stretches = []struct {
	name, meaning, from, to string
}{
	{"monitor", "exec to the kernel's first byte", "", sample.KernelByte},
	{"kernel up", "first kernel line to 'Freeing unused kernel' (published: kernel)", sample.KernelBanner, sample.KernelUp},
	{"kernel", "first kernel line to Run init", sample.KernelBanner, sample.GuestInit},
	{"initrd freed", "first kernel line to 'Freeing initrd memory'", sample.KernelBanner, sample.InitrdFreed},
	{"initrd", "Run init to systemd on the real root (published: the step of the initrd)", sample.GuestInit, sample.RootUp},
	{"modules", "systemd to sysinit.target, for the published 'loop: module loaded', which no new kernel prints", sample.RootUp, sample.ModulesUp},
	{"bridge", "first kernel line to docker0 created", sample.KernelBanner, sample.BridgeCreated},
	{"total", "first kernel line to docker0 up, as the link's own event tells (published: total)", sample.KernelBanner, sample.BridgeUp},
	{"engine", "first kernel line to docker.service active", sample.KernelBanner, sample.EngineUp},
	{"systemd's kernel", "the kernel, as systemd reports it by the guest's clock", "", sample.SystemdKernel},
	{"systemd's initrd", "systemd in the initramfs, by its own report", "", sample.SystemdInitrd},
	{"systemd's userspace", "systemd on the real root until nothing was left to be started, by its own report", "", sample.SystemdUserspace},
	{FirstContainer, "request to the first container's payload", "", sample.Ready},
	{"powered off", "payload's end to the monitor's", sample.Wall, sample.PoweredOff},
}

// Describe puts boots beside each other.
func Describe(in Input) *Description {
	in.Input = in.WithDefaults()
	c := &Description{Control: in.Control, Whole: FirstContainer}
	cpu := "the monitor's CPU seconds, from its exec to its end"
	if in.Own {
		c.Whole, cpu = Until, "the monitor's CPU seconds, from its exec to the boot's end"
	}
	s := bootReader{in: in.Input, cells: map[string]study.Cell{}}
	for _, cell := range in.Cells {
		if !cell.AA && in.Measured(cell.ID) {
			if cell.Workload == bootWorkload {
				s.cells[cell.Target] = cell
			}
			c.Targets = append(c.Targets, cell.Target)
		}
	}
	c.parts(in.Parts)
	for _, span := range stretches {
		if in.Own && span.name == FirstContainer {
			span.name, span.meaning = Until, "exec to the line that --until names, else to the machine's end"
		}
		one := Span{Name: span.name, Meaning: span.meaning, Metric: sample.Metric{Name: span.name, Unit: sample.Seconds, Better: sample.Lower}}
		c.add(s, one, func(target string) analysis.Series {
			to := s.series(target, span.to)
			if span.from == "" {
				return to
			}
			return minus(to, s.series(target, span.from))
		})
	}
	for _, m := range []struct {
		name, meaning, metric string
		unit                  sample.Unit
	}{
		{"CPU", cpu, sample.CPU, sample.Seconds},
		{"memory", "the monitor's peak", sample.PeakMemory, sample.Bytes},
	} {
		c.add(s, Span{Name: m.name, Meaning: m.meaning, Metric: sample.Metric{Name: m.metric, Unit: m.unit, Better: sample.Lower}},
			func(target string) analysis.Series { return s.series(target, m.metric) })
	}
	c.profiles(in)
	if i := slices.IndexFunc(in.Tables, func(t analysis.Table) bool { return t.Primary && t.Refused != "" }); i >= 0 {
		c.Refused = in.Tables[i].Refused
	}
	c.Findings = c.findings()
	return c
}

// bootWorkload is the workload whose trials are boots.
const bootWorkload = "boot"

// bootReader finds the numbers of a run's boots.
type bootReader struct {
	in    analysis.Input
	cells map[string]study.Cell // by target
}

// series is a metric of a target's boots; an empty one where there is none.
func (s bootReader) series(target, metric string) analysis.Series {
	return s.in.Series(s.cells[target].ID, metric)
}

// estimate is a series' median with its interval.
func (s bootReader) estimate(b analysis.Series, names ...string) (stats.Estimate, bool) {
	if b.Len() == 0 {
		return stats.Estimate{}, false
	}
	return stats.OfMedian(b.Values(), stats.Source(s.in.Seed, names...)), true
}

// minus is the difference of two metrics of one cell, trial by trial.
func minus(to, from analysis.Series) analysis.Series {
	var blocks []int32
	var values []float64
	to.Pairs(from, func(block int, x, y float64) {
		blocks, values = append(blocks, int32(block)), append(values, x-y)
	})
	return analysis.NewSeries(blocks, values)
}

// add completes a span from the targets' series; one that no target has is left out.
func (c *Description) add(s bootReader, span Span, series func(target string) analysis.Series) {
	span.Here, span.Speedup = map[string]stats.Estimate{}, map[string]stats.Estimate{}
	control := series(c.Control)
	for _, target := range c.Targets {
		of := series(target)
		if e, ok := s.estimate(of, "trim", target, span.Name); ok {
			span.Here[target] = e
		}
		if target == c.Control {
			continue
		}
		if e := analysis.Against(control, of); e.Blocks > 0 && e.Ratio > 0 {
			span.Speedup[target] = stats.Estimate{Value: e.Ratio, Interval: e.Interval}
		}
	}
	if len(span.Here) > 0 {
		c.Spans = append(c.Spans, span)
	}
}

func (c *Description) parts(facts map[string]map[string]string) {
	for _, target := range c.Targets {
		f := facts[target]
		p := Parts{Target: target, What: f["arm"], Kernel: f["kernel"], Symbols: f["symbols"]}
		p.Image, p.Initrd = bytesOf(f["kernel-bytes"]), bytesOf(f["initrd-bytes"])
		for _, note := range slices.Sorted(maps.Keys(f)) {
			if rest, ok := strings.CutPrefix(note, "proof "); ok {
				_, check, _ := strings.Cut(rest, " ")
				p.Proof = append(p.Proof, Proof{check, f[note]})
			}
		}
		c.Parts = append(c.Parts, p)
	}
}

// bytesOf reads a fact; 0 where there is none.
func bytesOf(fact string) int64 {
	n, err := strconv.ParseInt(fact, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// keptSteps of each boot are kept: those that a chart can show.
const keptSteps = 200

func (c *Description) profiles(in Input) {
	for _, target := range c.Targets {
		p := in.Boots[target].Profile
		if p == nil {
			continue
		}
		one := Profile{Target: target, Lines: p.Lines, End: p.End, Began: p.Boot.Ahead.Seconds(), Marks: marksOf(in.Boots[target].Values, c.Whole)}
		for _, u := range p.Units {
			one.Units = append(one.Units, Unit{u.Name, (u.Active - u.Took).Seconds(), u.Active.Seconds(), u.Failed})
		}
		one.processes(p.Boot.Processes)
		for _, ph := range p.Phases {
			if ph.Found {
				one.Phases = append(one.Phases, Phase{ph.Name, ph.Took.Seconds(), ph.Lines})
			}
		}
		one.told(in.Boots[target])
		for _, st := range p.Steps[:min(keptSteps, len(p.Steps))] {
			one.Steps = append(one.Steps, Step{st.At.Seconds(), st.Took.Seconds(), st.Line, st.Part()})
		}
		c.Profiles = append(c.Profiles, one)
	}
	c.causes(in.Boots)
}

// causes sums the kernel's parts up, those that cost the control most first.
func (c *Description) causes(boots map[string]Boot) {
	parts := map[string]*Subsystem{}
	part := func(name string) *Subsystem {
		if parts[name] == nil {
			parts[name] = &Subsystem{name, map[string]int{}, map[string]float64{}, map[string]int{}, map[string]float64{}}
		}
		return parts[name]
	}
	for _, p := range c.Profiles {
		boot := boots[p.Target]
		for _, sub := range boot.Profile.Subsystems {
			s := part(sub.Name)
			s.Lines[p.Target], s.Steps[p.Target] = sub.Lines, sub.Steps.Seconds()
		}
		if boot.Told == nil {
			continue
		}
		for _, sub := range boot.Told.Subsystems {
			if sub.Initcalls > 0 {
				s := part(sub.Name)
				s.Calls[p.Target], s.Own[p.Target] = sub.Initcalls, sub.Own.Seconds()
			}
		}
	}
	for _, s := range parts {
		c.Causes = append(c.Causes, *s)
	}
	slices.SortFunc(c.Causes, func(x, y Subsystem) int {
		return cmp.Or(cmp.Compare(y.Own[c.Control], x.Own[c.Control]), cmp.Compare(y.Steps[c.Control], x.Steps[c.Control]), cmp.Compare(x.Name, y.Name))
	})
}

// keptProcesses of each boot are kept: those that a chart can show.
const keptProcesses = 100

func (p *Profile) processes(all []bootlog.Process) {
	for _, seen := range all {
		p.Processes = append(p.Processes, Process{seen.PID, seen.Parent, seen.Name, seen.Start.Seconds(), seen.End.Seconds(), seen.CPU.Seconds()})
	}
	slices.SortStableFunc(p.Processes, func(x, y Process) int { return cmp.Compare(y.CPU, x.CPU) })
	p.Processes = p.Processes[:min(keptProcesses, len(p.Processes))]
}

// keptCalls of each boot are kept: all, unless somebody's kernel has too many.
const keptCalls = 1000

// told adds what a boot told of its initcalls and modules.
func (p *Profile) told(boot Boot) {
	p.Modules = boot.Modules
	by := boot.Told
	if by == nil {
		return
	}
	symbol := map[string]string{} // by initcall
	for _, s := range by.Symbols {
		one := Symbol{cmp.Or(s.Name, AlwaysBuilt), s.Own.Seconds(), len(s.Initcalls), s.Objects}
		p.Symbols = append(p.Symbols, one)
		for _, call := range s.Initcalls {
			symbol[call] = one.Name
		}
	}
	p.Started = len(by.Initcalls)
	for i, c := range by.Initcalls {
		p.Own += c.Own.Seconds()
		if i >= keptCalls {
			continue
		}
		one := Call{Name: c.Name, Part: c.Part(), Own: c.Own.Seconds(), Symbol: symbol[c.Name]}
		for _, w := range c.Waits {
			one.Waits = fmt.Sprintf("%s, %.0f ms", w.For, w.Took.Seconds()*1e3)
		}
		p.Calls = append(p.Calls, one)
	}
}

// marksOf are the milestones of one trial, the last of which is called whole.
func marksOf(values map[string][]float64, whole string) []Mark {
	var out []Mark
	for _, m := range []struct{ metric, name string }{
		{sample.KernelBanner, "kernel"}, {sample.GuestInit, "init"}, {sample.RootUp, "systemd"}, {sample.ModulesUp, "sysinit"}, {sample.BridgeUp, "docker0 up"},
		{sample.EngineUp, "engine"}, {sample.Agent, "agent"}, {sample.Ready, whole}, {sample.PoweredOff, "off"},
	} {
		if v := values[m.metric]; len(v) > 0 {
			out = append(out, Mark{m.name, v[0]})
		}
	}
	slices.SortStableFunc(out, func(x, y Mark) int { return cmp.Compare(x.At, y.At) })
	return out
}

// Stretch finds a span, nil for none.
func (c *Description) Stretch(name string) *Span {
	i := slices.IndexFunc(c.Spans, func(s Span) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Spans[i]
}

func (c *Description) findings() []string {
	var out []string
	if c.Refused != "" {
		out = append(out, "What follows describes the run and claims nothing of the machine: "+c.Refused)
	}
	first := c.Stretch(c.Whole)
	if first == nil {
		return nil
	}
	if e, ok := first.Here[c.Control]; ok {
		out = append(out, fmt.Sprintf("%s: %.1f s%s from the %s.", c.Control, e.Value, quantity.Span(e, "%.1f", 1), first.Meaning))
	}
	for _, target := range c.Targets {
		e, ok := first.Speedup[target]
		if !ok {
			continue
		}
		text := fmt.Sprintf("%s: %.2f s, %.2f times as fast%s", target, first.Here[target].Value, e.Value, quantity.Span(e, "%.2f", 1))
		if k := c.Stretch("kernel"); k != nil {
			if r, ok := k.Speedup[target]; ok {
				text += fmt.Sprintf("; the kernel alone %.2f times%s", r.Value, quantity.Span(r, "%.2f", 1))
			}
		}
		if cpu := c.Stretch("CPU"); cpu != nil {
			if r, ok := cpu.Speedup[target]; ok {
				text += fmt.Sprintf("; CPU time %.2f times less%s", r.Value, quantity.Span(r, "%.2f", 1))
			}
		}
		out = append(out, text+".")
	}
	return append(append(out, c.sizes()...), c.proofs()...)
}

// proofs names the targets whose kernels fail a check, or says that none does.
func (c *Description) proofs() []string {
	var out []string
	passed, most := 0, 0
	for _, p := range c.Parts {
		most = max(most, len(p.Proof))
	}
	asked := fmt.Sprintf("%d checks", most)
	for _, p := range c.Parts {
		if n := len(p.Proof); n > 0 && n < most {
			asked += fmt.Sprintf(", %s %d of them", p.Target, n)
		}
		var failed []string
		for _, t := range p.Proof {
			if !t.Good() {
				failed = append(failed, t.Check)
			}
		}
		switch {
		case len(failed) > 0:
			out = append(out, fmt.Sprintf("%s FAILS the proof: %s.", p.Target, strings.Join(failed, ", ")))
		case len(p.Proof) > 0:
			passed++
		}
	}
	if passed > 0 && len(out) == 0 {
		out = append(out, fmt.Sprintf("Targets whose kernel was put to the proof: %d, and each passes it (%s).", passed, asked))
	}
	return out
}

// sizes says in a sentence what the smallest kernel weighs beside the control's.
func (c *Description) sizes() []string {
	var of, small *Parts
	for i := range c.Parts {
		p := &c.Parts[i]
		switch {
		case p.Image == 0:
		case p.Target == c.Control:
			of = p
		case small == nil || p.Image < small.Image:
			small = p
		}
	}
	if of == nil || small == nil {
		return nil
	}
	return []string{fmt.Sprintf("The kernel and initramfs of %s take %.2f + %.2f MB, those of %s %.2f + %.2f MB.",
		of.Target, float64(of.Image)/1e6, float64(of.Initrd)/1e6, small.Target, float64(small.Image)/1e6, float64(small.Initrd)/1e6)}
}
