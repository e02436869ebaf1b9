package containervmtrim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/kerneltools/bootstudy"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

func spanOf(c *description, name, target string) (stats.Estimate, bool) {
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

func headOf(c *description, first string, with bool) []string {
	head := []string{first}
	for _, target := range c.Targets {
		if with || target != c.Control {
			head = append(head, short(target))
		}
	}
	return head
}

// speedupsTable are the ratios of the control to each target.
func speedupsTable(c *description) finding.Table {
	g := finding.Table{Title: "How many times less than " + c.Control, Head: headOf(c, "stretch", false)}
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
		if s.After > 0 {
			row = append(row, quantity.Number(s.Before/s.After, 2))
		} else if c.Trims {
			row = append(row, "")
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

func timesTable(c *description) finding.Table {
	g := finding.Table{Title: "Milestones on the host's clock", Head: headOf(c, "stretch", true)}
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

func meaningsTable(c *description) finding.Table {
	g := finding.Table{Title: "What the stretches are", Words: true, Head: []string{"stretch", "from what to what"}}
	for _, s := range c.Spans {
		g.Rows = append(g.Rows, []string{s.Name, s.Meaning})
	}
	return g
}

func partsTable(c *description) finding.Table {
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

// proofTable is what works in each target's kernel: a row for each check.
func proofTable(c *description) finding.Table {
	g := finding.Table{Title: "The proof: what containers need of each kernel", Words: true, Head: headOf(c, "check", true)}
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

// phasesTable are the published log's five phases, here by the kernel's clock.
func phasesTable(c *description) finding.Table {
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

// linesTable are the kernel's parts by what each boot's console holds of them.
func linesTable(c *description) finding.Table {
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

// initcallsTable are the kernel's parts by initcalls, of the targets of which a boot
// told: their time is no other target's, which is that before lines.
func initcallsTable(c *description) finding.Table {
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

// toldTable are initcalls and modules of each boot that told of them.
func toldTable(c *description) finding.Table {
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

// symbolsTable are the Kconfig symbols whose code cost most.
func symbolsTable(p bootstudy.Profile) finding.Table {
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

func callsTable(p bootstudy.Profile) finding.Table {
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

func stepsTable(p bootstudy.Profile) finding.Table {
	g := finding.Table{Title: "Costliest steps of " + p.Target + ": the time before a line", Words: true, Head: []string{"at, s", "took, ms", "line"}}
	for _, s := range p.Steps[:min(shownSteps, len(p.Steps))] {
		g.Rows = append(g.Rows, []string{quantity.Number(s.At, 3), quantity.Number(s.Took*1e3, 1), s.Line})
	}
	return g
}
