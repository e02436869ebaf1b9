package kerneltools

import (
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/tarelab/tare/internal/kerneltools/bootlog"
	"github.com/tarelab/tare/internal/kerneltools/bootstudy"
)

// milliseconds and clock write durations as a boot's log has them.
func milliseconds(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()*1e3) }
func clock(d time.Duration) string        { return fmt.Sprintf("%.3f", d.Seconds()) }

// numbers aligns the first columns of a table to the right.
func numbers(t table.Writer, first, columns, width int) {
	configs := make([]table.ColumnConfig, columns)
	for i := range configs {
		configs[i] = table.ColumnConfig{Number: i + 1, WidthMax: width, WidthMaxEnforcer: text.WrapSoft}
		if i < first {
			configs[i].Align, configs[i].AlignHeader = text.AlignRight, text.AlignRight
		}
	}
	t.SetColumnConfigs(configs)
}

// part prints one table of a profile: nothing where it has no rows.
func (v verbs) part(title string, right int, header []any, rows []table.Row, top int) {
	if len(rows) == 0 {
		return
	}
	shown := rows
	if top > 0 && len(rows) > top {
		shown = rows[:top]
	}
	fmt.Fprintf(v.Stdout(), "\n%s\n", title)
	t := v.Table(header...)
	numbers(t, right, len(header), max(40, v.Width()-45))
	t.AppendRows(shown)
	t.Render()
	if more := len(rows) - len(shown); more > 0 {
		fmt.Fprintf(v.Stdout(), "... and %d more (--json prints all)\n", more)
	}
}

func (v verbs) printBoot(b bootOf, top int) {
	p := b.Profile
	kernel := "an unknown kernel"
	if p.Kernel != "" {
		kernel = "Linux " + p.Kernel
	}
	fmt.Fprintf(v.Stdout(), "%s: %s, %d lines, %.3f s by the %s's clock\n", b.name(), kernel, p.Lines, p.End, p.Clock)
	for _, w := range p.Warnings {
		fmt.Fprintln(v.Stdout(), "!", w)
	}
	v.part("Milestones", 2, []any{"at s", "step ms", "", "line"}, milestoneRows(p), 0)
	v.part("Phases, as the published log is cut", 2, []any{"took s", "lines", "", "ends at"}, phaseRows(p), 0)
	v.part("Costliest steps: the time between a line and the one before", 2, []any{"at s", "took ms", "line", "meanwhile"}, stepRows(p), top)
	if p.Initramfs != nil {
		fmt.Fprintf(v.Stdout(), "\nThe initramfs (%s) was unpacked in %s ms, from %s to %s s.\n", p.Initramfs.Size,
			milliseconds(p.Initramfs.End-p.Initramfs.Start), clock(p.Initramfs.Start), clock(p.Initramfs.End))
	}
	v.part("Announced waits", 2, []any{"at s", "took ms", "for"}, waitRows(p), top)
	v.part(fmt.Sprintf("Initcalls: %d, %s ms of their own", len(p.Initcalls), milliseconds(ownTotal(p))), 2,
		[]any{"own ms", "took ms", "function", "waited for"}, callRows(p), top)
	v.part("Kconfig symbols", 2, []any{"own ms", "initcalls", "symbol", "objects"}, symbolRows(p), top)
	v.part("Subsystems", 4, []any{"initcalls ms", "initcalls", "steps ms", "lines", ""}, subsystemRows(p), top)
	v.part("Modules", 2, []any{"at s", "initcalls ms", ""}, moduleRows(p), top)
	v.part("Units, the slowest first", 2, []any{"active s", "took ms", ""}, unitRows(bootlog.Slowest(p.Units)), top)
	v.part("Critical chain of units (inferred from times: the log holds no dependencies)", 2, []any{"active s", "took ms", ""}, unitRows(p.Chain), top)
}

func ownTotal(p *bootlog.Profile) time.Duration {
	var sum time.Duration
	for _, c := range p.Initcalls {
		sum += c.Own
	}
	return sum
}

func milestoneRows(p *bootlog.Profile) (rows []table.Row) {
	for _, m := range p.Milestones {
		rows = append(rows, table.Row{clock(m.At), milliseconds(m.Took), m.Name, m.Line})
	}
	return rows
}

func phaseRows(p *bootlog.Profile) (rows []table.Row) {
	for _, ph := range p.Phases {
		if !ph.Found {
			rows = append(rows, table.Row{"-", "-", ph.Name, "not in this log"})
			continue
		}
		rows = append(rows, table.Row{clock(ph.Took), ph.Lines, ph.Name, ph.Until})
	}
	return rows
}

func stepRows(p *bootlog.Profile) (rows []table.Row) {
	for _, s := range p.Steps {
		line := s.Line
		if s.Source != "" {
			line = s.Source + ": " + line
		}
		rows = append(rows, table.Row{clock(s.At), milliseconds(s.Took), line, strings.Join(s.While, " ")})
	}
	return rows
}

func waitRows(p *bootlog.Profile) (rows []table.Row) {
	for _, w := range p.Waits {
		rows = append(rows, table.Row{clock(w.At), milliseconds(w.Took), w.For})
	}
	return rows
}

func callRows(p *bootlog.Profile) (rows []table.Row) {
	for _, c := range p.Initcalls {
		name := c.Name
		if c.Module != "" {
			name += " [" + c.Module + "]"
		}
		var waits []string
		for _, w := range c.Waits {
			waits = append(waits, fmt.Sprintf("%s %s ms (%s)", w.For, milliseconds(w.Took), w.Why))
		}
		if c.Async {
			waits = append(waits, "ran beside others")
		}
		rows = append(rows, table.Row{milliseconds(c.Own), milliseconds(c.Took), name, strings.Join(waits, "; ")})
	}
	return rows
}

func symbolRows(p *bootlog.Profile) (rows []table.Row) {
	for _, s := range p.Symbols {
		name := s.Name
		if name == "" {
			name = "(always built)"
		}
		objects := s.Objects
		if len(objects) > 3 {
			objects = append(objects[:3:3], fmt.Sprintf("and %d more", len(s.Objects)-3))
		}
		rows = append(rows, table.Row{milliseconds(s.Own), len(s.Initcalls), name, strings.Join(objects, " ")})
	}
	return rows
}

func subsystemRows(p *bootlog.Profile) (rows []table.Row) {
	for _, s := range p.Subsystems {
		rows = append(rows, table.Row{milliseconds(s.Own), s.Initcalls, milliseconds(s.Steps), s.Lines, s.Name})
	}
	return rows
}

func moduleRows(p *bootlog.Profile) (rows []table.Row) {
	for _, m := range p.Modules {
		rows = append(rows, table.Row{clock(m.At), milliseconds(m.Took), m.Name})
	}
	return rows
}

func unitRows(units []bootlog.Unit) (rows []table.Row) {
	for _, u := range units {
		name := u.Name
		if u.Failed {
			name += " (failed)"
		}
		rows = append(rows, table.Row{clock(u.Active), milliseconds(u.Took), name})
	}
	return rows
}

// printBesidePublished sets a boot beside that of the published study.
func (v verbs) printBesidePublished(p *bootlog.Profile, study *bootstudy.Published) {
	fmt.Fprintf(v.Stdout(), "\nBeside the published boot (%s)\n", study.Citation)
	var rows []table.Row
	for _, name := range []string{bootlog.MarkKernel, bootlog.MarkInitrd, bootlog.MarkModules, bootlog.MarkTotal} {
		r := study.Results[name]
		here := "not in this log"
		for _, m := range p.Milestones {
			if m.Name == name {
				here = clock(m.At)
				if name == bootlog.MarkInitrd || name == bootlog.MarkModules {
					here = clock(m.Took) // published as the duration of the step
				}
			}
		}
		rows = append(rows, table.Row{fmt.Sprintf("%.3f", r.Before), fmt.Sprintf("%.3f", r.After), here, name, study.Method.Milestones[name]})
	}
	v.part("Milestones", 3, []any{"before s", "after s", "here s", "", "line"}, rows, 0)
	rows = nil
	for i, ph := range study.Phases {
		here := "-"
		if i < len(p.Phases) && p.Phases[i].Found {
			here = clock(p.Phases[i].Took)
		}
		rows = append(rows, table.Row{fmt.Sprintf("%.3f", ph.Seconds), here, ph.What})
	}
	v.part("Phases", 2, []any{"published s", "here s", ""}, rows, 0)
	rows = nil
	for _, s := range study.CostliestSteps {
		here, like := "-", ""
		if _, took, line, ok := p.Match(s.Line); ok {
			here, like = milliseconds(took), line
		}
		rows = append(rows, table.Row{fmt.Sprintf("%.1f", s.Took*1e3), here, s.Line, like})
	}
	v.part("Costliest steps before trimming", 2, []any{"published ms", "here ms", "published line", "line here"}, rows, 0)
}

// printSideBySide sets the milestones of several boots beside one another; the
// ratio is that of the first boot to each.
func (v verbs) printSideBySide(boots []bootOf) {
	header := []any{""}
	for _, b := range boots {
		header = append(header, b.name())
	}
	var rows []table.Row
	for _, name := range bootlog.MilestoneNames() {
		row, any := table.Row{name}, false
		first, known := boots[0].Profile.Reached(name)
		for i, b := range boots {
			at, ok := b.Profile.Reached(name)
			any = any || ok
			switch {
			case !ok:
				row = append(row, "-")
			case i > 0 && known && at > 0:
				row = append(row, fmt.Sprintf("%s (%.2fx)", clock(at), first.Seconds()/at.Seconds()))
			default:
				row = append(row, clock(at))
			}
		}
		if any {
			rows = append(rows, row)
		}
	}
	v.part("Side by side: milestones in s, each boot's own clock (how many times as fast as the first)", 0, header, rows, 0)
}
