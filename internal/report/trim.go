package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

// trimSection is boots of container hosts before and after trimming, beside the
// published ones.
func trimSection(c *analysis.TrimClaims) finding.Section {
	s := finding.Section{
		ID: "container-vm-trim", Title: "Before and after trimming, published beside this machine", Findings: c.Findings,
		Figures: trimFigures(c), Claims: c.Claims, Note: trimNote(c), Alone: true,
	}
	switch {
	case len(c.Targets) == 1:
		s.Title = "Boots of " + c.Targets[0]
	case !c.Trims:
		s.Title = "Boots beside that of " + c.Control
	}
	s.Headline = c.Findings[:min(3, len(c.Findings))]
	if len(c.Targets) > 1 {
		s.Tables = append(s.Tables, trimSpeedups(c))
	}
	s.Tables = append(s.Tables, trimTimes(c), trimMeanings(c), trimParts(c))
	if g := trimProof(c); len(g.Rows) > 0 {
		s.Tables = append(s.Tables, g)
	}
	if len(c.Profiles) > 0 {
		s.Tables = append(s.Tables, trimPhases(c), trimLines(c))
		if g := trimTold(c); len(g.Rows) > 0 {
			s.Tables = append(s.Tables, trimInitcalls(c), g)
		}
		for _, p := range c.Profiles[:min(2, len(c.Profiles))] {
			s.Tables = append(s.Tables, trimSteps(p))
			if len(p.Calls) > 0 {
				s.Tables = append(s.Tables, trimCalls(p))
			}
			if len(p.Symbols) > 0 {
				s.Tables = append(s.Tables, trimSymbols(p))
			}
		}
	}
	return s
}

// trimBars are the parts of a boot one after another, and the spans that they are.
var trimBars = []struct{ name, span string }{
	{"monitor", "monitor"}, {"kernel", "kernel"}, {"initramfs and init", "initrd"}, {"systemd to sysinit", "modules"},
}

// trimFigures are the boots as bars on one axis, before above after.
func trimFigures(c *analysis.TrimClaims) []finding.Figure {
	f := finding.Figure{Title: "Boots on this machine: from the request to the first container's payload", Y: finding.Axis{Label: "s"}}
	rest := "engine and container"
	if c.Whole == analysis.TrimUntil {
		f.Title, rest = "Boots on this machine: from the monitor's exec to the boot's end", "the rest"
	}
	for _, target := range c.Targets {
		total, ok := spanOf(c, c.Whole, target)
		if !ok {
			continue
		}
		b := finding.Bar{Name: target, Look: finding.Measured}
		if quantity.Known(total.Interval) {
			b.Low, b.High = total.Interval.Low, total.Interval.High
		}
		left := total.Value
		for _, p := range trimBars {
			if e, ok := spanOf(c, p.span, target); ok && e.Value > 0 && e.Value < left {
				b.Parts = append(b.Parts, finding.Part{Name: p.name, Value: e.Value})
				left -= e.Value
			}
		}
		b.Parts = append(b.Parts, finding.Part{Name: rest, Value: left})
		f.Bars = append(f.Bars, b)
	}
	if len(f.Bars) == 0 {
		return nil
	}
	return []finding.Figure{f}
}

func spanOf(c *analysis.TrimClaims, name, target string) (stats.Estimate, bool) {
	for _, s := range c.Spans {
		if s.Name == name {
			e, ok := s.Here[target]
			return e, ok
		}
	}
	return stats.Estimate{}, false
}

// short is a target's name without the family's.
func short(target string) string { return strings.TrimPrefix(target, "vm/") }

func trimHead(c *analysis.TrimClaims, first string, with bool) []string {
	head := []string{first}
	for _, target := range c.Targets {
		if with || target != c.Control {
			head = append(head, short(target))
		}
	}
	return head
}

// trimSpeedups are the ratios of the control to each target.
func trimSpeedups(c *analysis.TrimClaims) finding.Table {
	g := finding.Table{Title: "How many times less than " + c.Control, Head: trimHead(c, "stretch", false)}
	if c.Trims {
		g.Head = append(g.Head, "published")
	}
	for _, s := range c.Spans {
		row := []string{s.Name}
		for _, target := range c.Targets {
			if target == c.Control {
				continue
			}
			cell := quantity.Missing
			if e, ok := s.Speedup[target]; ok {
				cell = quantity.Number(e.Value, 2) + quantity.PlusMinus(e)
			}
			row = append(row, cell)
		}
		if p := s.PublishedSpeedup(); p > 0 {
			row = append(row, quantity.Number(p, 2))
		} else if c.Trims {
			row = append(row, "")
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

func trimTimes(c *analysis.TrimClaims) finding.Table {
	g := finding.Table{Title: "Milestones on the host's clock", Head: trimHead(c, "stretch", true)}
	if c.Trims {
		g.Head = append(g.Head, "published before", "published after")
	}
	for _, s := range c.Spans {
		row := []string{s.Name}
		for _, target := range c.Targets {
			cell := quantity.Missing
			if e, ok := s.Here[target]; ok {
				cell = quantity.Of(s.Metric.Unit, e.Value, e.Interval)
			}
			row = append(row, cell)
		}
		if s.Before > 0 {
			row = append(row, quantity.Of(sample.Seconds, s.Before, stats.Interval{}), quantity.Of(sample.Seconds, s.After, stats.Interval{}))
		} else if c.Trims {
			row = append(row, "", "")
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

func trimMeanings(c *analysis.TrimClaims) finding.Table {
	g := finding.Table{Title: "What the stretches are", Words: true, Head: []string{"stretch", "from what to what"}}
	for _, s := range c.Spans {
		g.Rows = append(g.Rows, []string{s.Name, s.Meaning})
	}
	return g
}

func trimParts(c *analysis.TrimClaims) finding.Table {
	g := finding.Table{Title: "What is booted", Words: true, Head: []string{"target", "kernel, MB", "initramfs, MB", "configuration", "kernel", "what it is"}}
	for _, p := range c.Parts {
		initrd := "none"
		if p.Initrd > 0 {
			initrd = fmt.Sprintf("%.2f", float64(p.Initrd)/1e6)
		}
		g.Rows = append(g.Rows, []string{p.Target, fmt.Sprintf("%.2f", float64(p.Image)/1e6), initrd, p.Symbols, p.Kernel, p.What})
	}
	return g
}

// trimProof is what works in each target's kernel: a row for each check.
func trimProof(c *analysis.TrimClaims) finding.Table {
	g := finding.Table{Title: "The proof: what containers need of each kernel", Words: true, Head: trimHead(c, "check", true)}
	rows := map[string][]string{}
	var order []string
	for i, p := range c.Parts {
		for _, t := range p.Proof {
			if rows[t.Check] == nil {
				rows[t.Check] = slices.Repeat([]string{quantity.Missing}, len(c.Parts))
				order = append(order, t.Check)
			}
			rows[t.Check][i] = t.Result
		}
	}
	for _, check := range order {
		g.Rows = append(g.Rows, append([]string{check}, rows[check]...))
	}
	return g
}

// trimPhases are the published log's five phases, here by the kernel's clock.
func trimPhases(c *analysis.TrimClaims) finding.Table {
	g := finding.Table{Title: "Phases of the console, as the published log is cut, s", Head: []string{"boot", "ACPI", "early init", "PCI", "USB", "modules", "lines"}}
	for _, p := range c.Profiles {
		row := make([]string, len(g.Head))
		row[0], row[len(row)-1] = p.Target, fmt.Sprint(p.Lines)
		for i, name := range g.Head[1 : len(row)-1] {
			row[i+1] = quantity.Missing
			for _, ph := range p.Phases {
				if ph.Name == name {
					row[i+1] = quantity.Number(ph.Seconds, 3)
				}
			}
		}
		g.Rows = append(g.Rows, row)
	}
	row := []string{"· published, before"}
	for _, p := range c.Phases {
		row = append(row, quantity.Number(p.Seconds, 3))
	}
	if len(row) == len(g.Head)-1 {
		g.Rows = append(g.Rows, append(row, ""))
	}
	return g
}

// trimLines are the kernel's parts by what each boot's console holds of them.
func trimLines(c *analysis.TrimClaims) finding.Table {
	g := finding.Table{Title: "Parts of the kernel: lines of the console, and ms before them", Head: []string{"part"}}
	for _, p := range c.Profiles {
		g.Head = append(g.Head, short(p.Target)+" lines", "ms")
	}
	for _, s := range c.Causes {
		row := []string{s.Name}
		for _, p := range c.Profiles {
			row = append(row, fmt.Sprint(s.Lines[p.Target]), quantity.Number(s.Steps[p.Target]*1e3, 1))
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// trimInitcalls are the kernel's parts by initcalls, of the targets of which a boot
// told: their time is no other target's, which is that before lines.
func trimInitcalls(c *analysis.TrimClaims) finding.Table {
	g := finding.Table{Title: "Parts of the kernel: initcalls, and their own ms", Head: []string{"part"}}
	for _, p := range c.Profiles {
		if p.Started > 0 {
			g.Head = append(g.Head, short(p.Target)+" calls", "own ms")
		}
	}
	for _, s := range c.Causes {
		if len(s.Calls) == 0 {
			continue
		}
		row := []string{s.Name}
		for _, p := range c.Profiles {
			if p.Started > 0 {
				row = append(row, fmt.Sprint(s.Calls[p.Target]), quantity.Number(s.Own[p.Target]*1e3, 1))
			}
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// trimTold are initcalls and modules of each boot that told of them.
func trimTold(c *analysis.TrimClaims) finding.Table {
	g := finding.Table{Title: "Initcalls, and the modules that are loaded once the engine is up (/proc/modules)", Words: true,
		Head: []string{"boot", "initcalls", "their own time, s", "modules", "which"}}
	for _, p := range c.Profiles {
		if p.Started == 0 {
			continue
		}
		row := []string{p.Target, fmt.Sprint(p.Started), quantity.Number(p.Own, 3), quantity.Missing, quantity.Missing} // nobody asked
		if p.Modules != nil {
			row[3], row[4] = fmt.Sprint(len(p.Modules)), strings.Join(p.Modules, " ")
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// trimSymbols are the Kconfig symbols whose code cost most.
func trimSymbols(p analysis.TrimProfile) finding.Table {
	g := finding.Table{Title: "Costliest Kconfig symbols of " + p.Target + ", by their initcalls", Words: true, Head: []string{"symbol", "initcalls", "own, ms", "objects"}}
	for _, s := range p.Symbols[:min(shownSteps, len(p.Symbols))] {
		objects := strings.Join(s.Objects[:min(shownObjects, len(s.Objects))], " ")
		if more := len(s.Objects) - shownObjects; more > 0 {
			objects += fmt.Sprintf(" and %d more", more)
		}
		g.Rows = append(g.Rows, []string{s.Name, fmt.Sprint(s.Calls), quantity.Number(s.Own*1e3, 1), objects})
	}
	return g
}

func trimCalls(p analysis.TrimProfile) finding.Table {
	g := finding.Table{Title: "Costliest initcalls of " + p.Target, Words: true, Head: []string{"initcall", "part", "own, ms", "waited for"}}
	for _, call := range p.Calls[:min(shownSteps, len(p.Calls))] {
		g.Rows = append(g.Rows, []string{call.Name, call.Part, quantity.Number(call.Own*1e3, 1), call.Waits})
	}
	return g
}

// shownSteps of each boot stand in a table, and shownObjects of a symbol.
const (
	shownSteps   = 12
	shownObjects = 3
)

func trimSteps(p analysis.TrimProfile) finding.Table {
	g := finding.Table{Title: "Costliest steps of " + p.Target + ": the time before a line", Words: true, Head: []string{"at, s", "took, ms", "line"}}
	for _, s := range p.Steps[:min(shownSteps, len(p.Steps))] {
		g.Rows = append(g.Rows, []string{quantity.Number(s.At, 3), quantity.Number(s.Took*1e3, 1), s.Line})
	}
	return g
}

func trimNote(c *analysis.TrimClaims) string {
	note := "± is half the 95 % interval; ratios are taken within blocks. All stretches are differences of marks on the host's clock; phases and steps are one kept boot's, by its kernel's own clock; "
	if c.Whole == analysis.TrimUntil {
		return note + "whether the machines ran under KVM or were emulated stands among the targets' facts."
	}
	return note + "initcalls and modules are told by a boot of their own, whose time counts for nothing else. " +
		"Whether the machines ran under KVM or were emulated stands among the targets' facts. Published: seconds of another machine and another kernel; only their ratios compare. Source: " + c.Citation
}
