package containervmtrim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/kerneltools/bootstudy"
	"github.com/tarelab/tare/internal/quantity"
)

// barParts are the parts of a boot one after another, and the spans that they are.
var barParts = []struct{ name, span string }{
	{"monitor", "monitor"}, {"kernel", "kernel"}, {"initramfs and init", "initrd"}, {"systemd to sysinit", "modules"},
}

// barFigures are the boots as bars on one axis, before above after.
func barFigures(c *description) []finding.Figure {
	f := finding.Figure{Title: "Boots on this machine: from the request to the first container's payload", Y: finding.Axis{Label: "s"}}
	rest := "engine and container"
	if c.Whole == bootstudy.Until {
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
		for _, p := range barParts {
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

// What a timeline has room for.
const (
	shownParts     = 10
	shownUnits     = 24
	shownProcesses = 24
)

// timelines are the kept boots above one another on one axis of time.
func timelines(c *description) []finding.Figure {
	if len(c.Profiles) == 0 {
		return nil
	}
	t := &finding.Timeline{}
	parts := costliestParts(c.Profiles)
	for _, p := range c.Profiles {
		t.Rows = append(t.Rows, timeline(p, parts))
	}
	return []finding.Figure{{Title: "One boot of each target since the request: the time before each line of the kernel, by whose line it is; below, systemd's units from their start until active, " +
		"and the processes that used most CPU time, the darker the busier; dashed, the milestones on the host's clock", Timeline: t}}
}

// timeline is one boot, until its last mark or the console's last line.
func timeline(p bootstudy.Profile, parts []string) finding.TimelineRow {
	row := finding.TimelineRow{Name: p.Target, End: p.Began + p.End, Lanes: slices.Concat(kernelLanes(p, parts), unitLanes(p), processLanes(p))}
	for _, m := range p.Marks {
		row.Marks = append(row.Marks, finding.Mark{Name: m.Name, At: m.At})
		row.End = max(row.End, m.At)
	}
	return row
}

// costliestParts are those of all boots together that cost most: the same lanes for
// each boot, so that one can be read above the other.
func costliestParts(boots []bootstudy.Profile) []string {
	cost := map[string]float64{}
	for _, b := range boots {
		for _, s := range b.Steps {
			cost[s.Part] += s.Took
		}
	}
	names := slices.SortedFunc(maps.Keys(cost), func(x, y string) int { return cmp.Or(cmp.Compare(cost[y], cost[x]), cmp.Compare(x, y)) })
	return names[:min(shownParts, len(names))]
}

func kernelLanes(p bootstudy.Profile, parts []string) []finding.Lane {
	var lanes []finding.Lane
	for _, part := range parts {
		l := finding.Lane{Name: part}
		for _, s := range p.Steps {
			if s.Part == part {
				l.Stretches = append(l.Stretches, finding.Stretch{From: p.Began + s.At - s.Took, To: p.Began + s.At, Share: 1,
					Tip: fmt.Sprintf("%.1f ms before, at %.3f s: %s", s.Took*1e3, p.Began+s.At, s.Line)})
			}
		}
		if len(l.Stretches) > 0 {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

// unitLanes are systemd's units that took longest, in the order of their start.
func unitLanes(p bootstudy.Profile) []finding.Lane {
	units := slices.DeleteFunc(slices.Clone(p.Units), func(u bootstudy.Unit) bool { return u.Active <= u.Start })
	slices.SortStableFunc(units, func(x, y bootstudy.Unit) int { return cmp.Compare(y.Active-y.Start, x.Active-x.Start) })
	units = units[:min(shownUnits, len(units))]
	slices.SortStableFunc(units, func(x, y bootstudy.Unit) int { return cmp.Compare(x.Start, y.Start) })
	var lanes []finding.Lane
	for _, u := range units {
		until := "active"
		if u.Failed {
			until = "it failed"
		}
		lanes = append(lanes, finding.Lane{Name: u.Name, Minor: true, Stretches: []finding.Stretch{{From: p.Began + u.Start, To: p.Began + u.Active, Share: 0.6, Failed: u.Failed,
			Tip: fmt.Sprintf("%s: %.2f s until %s, at %.2f s", u.Name, u.Active-u.Start, until, p.Began+u.Active)}}})
	}
	return lanes
}

// processLanes are the processes that used most CPU time, from their start until they
// were seen last.
func processLanes(p bootstudy.Profile) []finding.Lane {
	busiest := slices.Clone(p.Processes[:min(shownProcesses, len(p.Processes))])
	slices.SortStableFunc(busiest, func(x, y bootstudy.Process) int { return cmp.Compare(x.Start, y.Start) })
	var lanes []finding.Lane
	for _, o := range busiest {
		lanes = append(lanes, finding.Lane{Name: fmt.Sprintf("%s [%d]", o.Name, o.PID), Minor: true, Stretches: []finding.Stretch{{From: p.Began + o.Start, To: p.Began + o.End,
			Share: min(1, o.CPU/max(o.End-o.Start, 0.01)),
			Tip:   fmt.Sprintf("process %d of %d, %s: %.2f s of CPU time from %.2f s until seen last at %.2f s", o.PID, o.Parent, o.Name, o.CPU, p.Began+o.Start, p.Began+o.End)}}})
	}
	return lanes
}

// costFigures are the flame graphs of the boots that told of their initcalls, one for
// each kernel.
func costFigures(c *description) []finding.Figure {
	var out []finding.Figure
	var seen [][]bootstudy.Call
	for _, p := range c.Profiles {
		if len(p.Calls) == 0 || slices.ContainsFunc(seen, func(calls []bootstudy.Call) bool { return slices.Equal(calls, p.Calls) }) {
			continue
		}
		seen = append(seen, p.Calls)
		by := ""
		if slices.ContainsFunc(p.Calls, func(call bootstudy.Call) bool { return call.Symbol != "" }) {
			by = " and Kconfig symbol"
		}
		out = append(out, finding.Figure{Title: fmt.Sprintf("%s: its kernel's initcalls by part%s, without what they waited for", p.Target, by),
			Flame: &finding.Flame{Of: p.Target, Note: "The wider a frame, the more of the kernel's own time; a click zooms in. Told by a boot apart.",
				Find: "find an initcall, symbol or part", Frame: costs(p.Calls)}})
	}
	return out
}

// costs are initcalls as frames: each on the Kconfig symbol that has it built, where
// that is known, and this on the part of the kernel that it starts.
func costs(calls []bootstudy.Call) finding.Frame {
	all := finding.Frame{Name: "all"}
	for _, call := range calls {
		path := []string{call.Part, call.Symbol, call.Name}
		frame := &all
		frame.Value += call.Own
		for _, name := range slices.DeleteFunc(path, func(s string) bool { return s == "" }) {
			i := slices.IndexFunc(frame.Children, func(f finding.Frame) bool { return f.Name == name })
			if i < 0 {
				i = len(frame.Children)
				frame.Children = append(frame.Children, finding.Frame{Name: name})
			}
			frame = &frame.Children[i]
			frame.Value += call.Own
		}
	}
	return all
}
