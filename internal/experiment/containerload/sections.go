package containerload

import (
	"fmt"
	"strings"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
)

// figures are what of containers over time is drawn, each in a row of figures,
// one a target, of one scale.
var figures = []struct {
	title, label string
	of           func(usage) float64
}{
	{"CPU", "CPU, % of one", func(u usage) float64 { return 100 * u.CPU }},
	{"Load", "processes that run or wait", func(u usage) float64 { return u.Load }},
	{"Memory", "MB", func(u usage) float64 { return u.Memory / 1e6 }},
	{"Read from disks", "MB/s", func(u usage) float64 { return u.Read / 1e6 }},
	{"Written to disks", "MB/s", func(u usage) float64 { return u.Written / 1e6 }},
	{"Received", "kB/s", func(u usage) float64 { return u.Received / 1e3 }},
	{"Sent", "kB/s", func(u usage) float64 { return u.Sent / 1e3 }},
}

// section is containers over time.
func section(c *description) finding.Section {
	s := finding.Section{ID: "series", Title: "Containers over time", Tables: []finding.Table{peaksTable(c)}, Data: c,
		Note: "Readings as tare watch makes them; curves are of the last trial of each target, and of the six containers that use most CPU time. A peak is the largest reading. " +
			"Rates of disks are those of block devices as the groups count them; where these count nothing (version 1, from Linux 6.10 on) those that /proc/PID/io counts of the processes, whose writes count when they become dirty: ratios between the two ways are rough."}
	for _, f := range figures {
		s.Figures = append(s.Figures, figure(c, f.title, f.label, f.of)...)
	}
	if len(c.Peaks) == 0 {
		s.Tables, s.Note = nil, "No container was running."
	}
	if p := c.Shown; p != nil {
		s.Note += fmt.Sprintf(" Readings are of one second; peaks of targets are medians over trials; ratios with their intervals stand in the tables of the workload, and nothing is claimed of peaks: the published ones are of %d minutes on another machine, read from curves whose interval is not given. Source: %s",
			p.Minutes, c.Citation)
	}
	return s
}

// figure draws one number, a figure a target; none where nobody knows it.
func figure(c *description, title, label string, of func(usage) float64) []finding.Figure {
	var out []finding.Figure
	for _, curve := range c.Curves {
		l := finding.Line{Name: curve.Container, Look: finding.Series}
		for _, u := range curve.Points {
			if v := of(u); v >= 0 {
				l.Points = append(l.Points, finding.Exactly(u.At, v))
			}
		}
		if len(l.Points) == 0 {
			continue
		}
		name := title
		if curve.Target != "" {
			name += ": " + curve.Target
		}
		if len(out) == 0 || out[len(out)-1].Title != name {
			out = append(out, finding.Figure{Title: name, Beside: len(out) > 0, X: finding.Axis{Label: "s", Zero: true}, Y: finding.Axis{Label: label, Zero: true}})
		}
		f := &out[len(out)-1]
		f.Lines = append(f.Lines, l)
	}
	return out
}

// peaksTable are means and peaks, the published ones below.
func peaksTable(c *description) finding.Table {
	g := finding.Table{Title: "Containers: means and peaks", Head: []string{"container", "readings of", "CPU %", "peak", "load", "memory peak, MB",
		"read peak, MB/s", "written peak, MB/s", "received peak, kB/s", "sent peak, kB/s"}}
	for _, p := range c.Peaks {
		trials := "one watch"
		if p.Target != "" {
			trials = fmt.Sprintf("%d %s", p.Trials, quantity.Plural(p.Trials, "trial"))
		}
		g.Rows = append(g.Rows, []string{strings.TrimPrefix(p.Target+": "+p.Container, ": "), trials,
			scaled(p.Mean.CPU, 100, 2), scaled(p.Peak.CPU, 100, 1), scaled(p.Mean.Load, 1, 2), scaled(p.Peak.Memory, 1e-6, 1),
			scaled(p.Peak.Read, 1e-6, 2), scaled(p.Peak.Written, 1e-6, 2), scaled(p.Peak.Received, 1e-3, 1), scaled(p.Peak.Sent, 1e-3, 1)})
	}
	if p := c.Shown; p != nil {
		g.Rows = append(g.Rows,
			[]string{"· published: package", "", "", scaled(p.PackageCPU, 100, 1), "", "", scaled(p.Read, 1e-6, 2), scaled(p.Written, 1e-6, 2), "", ""},
			[]string{"· published: late", "", "", scaled(p.LateCPU, 100, 1), "", "", "", "", "", ""})
	}
	return g
}

// scaled writes a number that may be unknown, which is negative.
func scaled(v, by float64, digits int) string {
	if v < 0 {
		return quantity.Missing
	}
	return quantity.Number(v*by, digits)
}
