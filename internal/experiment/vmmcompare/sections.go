package vmmcompare

import (
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

// section is the comparison of machine monitors beside the publication.
func section(c *comparison) finding.Section {
	s := finding.Section{
		ID: "stratovirt-vs-qemu", Title: "StratoVirt and QEMU, published beside this machine", Headline: headline(c), Findings: c.Findings,
		Figures: bootFigures(c), Claims: c.Claims, Note: note(c), Alone: true, Data: c,
	}
	s.Tables = append(s.Tables, bootTable(c))
	if len(c.Held) > 0 {
		s.Tables = append(s.Tables, memoryTable(c))
	}
	var tables []tableName
	for _, r := range c.Rows {
		if !slices.Contains(tables, r.Table) {
			tables = append(tables, r.Table)
			s.Tables = append(s.Tables, valuesTable(c, r.Table))
			if g := ratiosTable(c, r.Table); len(g.Head) > 1 {
				s.Tables = append(s.Tables, g)
			}
		}
	}
	return s
}

// headline is what StratoVirt's column is, and what the run shows.
func headline(c *comparison) []string {
	switch {
	case c.Measured("stratovirt"):
		return c.Findings
	case c.CannotHere == "":
		return append([]string{"StratoVirt was not asked for: its column is the published one."}, c.Findings...)
	}
	return append([]string{"StratoVirt was not measured here, its column is the published one: " + c.CannotHere + "."}, c.Findings...)
}

// comparedPairs are those with a ratio.
func comparedPairs(c *comparison) []pair {
	return slices.DeleteFunc(slices.Clone(c.Pairs), func(p pair) bool { return p.Refused != "" })
}

// bootFigures are the boots here and, on a scale of their own, the published.
func bootFigures(c *comparison) []finding.Figure {
	var out []finding.Figure
	for _, published := range []bool{false, true} {
		f := finding.Figure{Title: "Boots on this machine: from the request to the payload", Y: finding.Axis{Label: "s"}}
		look := finding.Measured
		if published {
			f.Title, look = "Boots as published: their difference is a unit of the guest that waits", finding.Published
		}
		for _, b := range c.Boots {
			if b.Published != published {
				continue
			}
			bars := finding.Bar{Name: headed(c, b.Name), Look: look}
			if quantity.Known(b.Total.Interval) {
				bars.Low, bars.High = b.Total.Interval.Low, b.Total.Interval.High
			}
			for _, p := range b.Phases {
				bars.Parts = append(bars.Parts, finding.Part{Name: p.Name, Value: p.Seconds})
			}
			f.Bars = append(f.Bars, bars)
		}
		if len(f.Bars) > 0 {
			out = append(out, f)
		}
	}
	return out
}

func bootTable(c *comparison) finding.Table {
	g := finding.Table{Title: "Boots, s", Head: []string{"machine"}}
	for _, b := range c.Boots {
		for _, p := range slices.Concat(b.Phases, b.Own) {
			if !slices.Contains(g.Head, p.Name) {
				g.Head = append(g.Head, p.Name)
			}
		}
	}
	g.Head = append(g.Head, "total", "until off")
	for _, b := range c.Boots {
		row := make([]string, len(g.Head))
		row[0] = headed(c, b.Name)
		if b.Published {
			row[0] = "· " + b.Name
		} else if b.Short {
			row[0] += ", ends at /init"
		}
		for _, p := range b.Phases {
			row[slices.Index(g.Head, p.Name)] = quantity.Number(p.Seconds, 3)
		}
		row[len(row)-2] = quantity.Number(b.Total.Value, 3) + quantity.PlusMinus(b.Total)
		if b.Off > 0 {
			row[len(row)-1] = quantity.Number(b.Off, 3)
		}
		g.Rows = append(g.Rows, row)
		if len(b.Own) == 0 {
			continue
		}
		own := make([]string, len(g.Head))
		own[0] = headed(c, b.Name) + ", guest's clock"
		if b.OwnTotal > 0 {
			own[0] = headed(c, b.Name) + ", by systemd"
			own[len(own)-2] = quantity.Number(b.OwnTotal, 3)
		}
		for _, p := range b.Own {
			own[slices.Index(g.Head, p.Name)] = quantity.Number(p.Seconds, 3)
		}
		g.Rows = append(g.Rows, own)
	}
	return g
}

// headed is a target's name at the head of a row or column, told apart where its CPU
// was emulated: the published machines ran under KVM.
func headed(c *comparison, target string) string {
	if c.Accels[target] == emulatedCPU {
		return target + " (emulated)"
	}
	return target
}

// valuesTable is one published table with the targets of this machine before it.
func valuesTable(c *comparison, table tableName) finding.Table {
	g := finding.Table{Title: capital(string(table)), Head: []string{"quantity"}}
	for _, target := range c.Targets {
		g.Head = append(g.Head, headed(c, target))
	}
	stratovirt := "published StratoVirt"
	if c.CannotHere != "" {
		stratovirt += " (cannot here)"
	}
	g.Head = append(g.Head, stratovirt, "published QEMU")
	for _, r := range c.Rows {
		if r.Table == table {
			g.Rows = append(g.Rows, valuesLine(c, r))
		}
	}
	return g.WithoutEmpty(quantity.Missing)
}

func valuesLine(c *comparison, r comparedRow) []string {
	shown := func(e stats.Estimate) string {
		if e.Value == 0 { // sysbench tells milliseconds, with two digits behind the point
			return "cut to 0"
		}
		return quantity.Of(r.Metric.Unit, e.Value, e.Interval)
	}
	line := []string{quantityName(r)}
	for _, target := range c.Targets {
		cell := ""
		if e, ok := r.Here[target]; ok {
			cell = shown(e)
		}
		line = append(line, cell)
	}
	for _, published := range []float64{r.PublishedStratoVirt, r.PublishedQEMU} {
		cell := ""
		if r.Table != tableDirect {
			cell = shown(stats.Estimate{Value: published})
		}
		line = append(line, cell)
	}
	return line
}

func quantityName(r comparedRow) string {
	if r.Name == r.Metric.Name {
		return r.Name
	}
	return r.Name + ", " + r.Metric.Name
}

// ratiosTable are one table's ratios: each virtual machine by the control, and
// StratoVirt by QEMU here and as published.
func ratiosTable(c *comparison, table tableName) finding.Table {
	g := finding.Table{Title: capital(string(table)) + ": ratios", Head: []string{"quantity"}}
	for _, target := range c.Targets {
		g.Head = append(g.Head, headed(c, target)+" : "+c.Host)
	}
	pairs := comparedPairs(c)
	for _, p := range pairs {
		g.Head = append(g.Head, "StratoVirt : QEMU, "+p.Machine)
	}
	g.Head = append(g.Head, "published StratoVirt : QEMU")
	for _, r := range c.Rows {
		if r.Table != table {
			continue
		}
		line := []string{quantityName(r)}
		for _, target := range c.Targets {
			line = append(line, ratioOf(r.ToHost, target))
		}
		for _, p := range pairs {
			line = append(line, ratioOf(r.Ratios, p.Machine))
		}
		published := ""
		if p := r.PublishedRatio(); p > 0 {
			published = quantity.Number(p, 2)
		}
		g.Rows = append(g.Rows, append(line, published))
	}
	return g.WithoutEmpty(quantity.Missing)
}

// ratioOf is the effect of that name with its verdict; "" where there is none.
func ratioOf(effects map[string]analysis.Effect, name string) string {
	e, ok := effects[name]
	if !ok {
		return ""
	}
	return quantity.Ratio(e.Ratio, e.Interval).Value + quantity.PlusMinus(stats.Estimate{Value: e.Ratio, Interval: e.Interval}) + ", " + string(e.Verdict)
}

// memoryTable is what one instance weighs, after its boot and after a load, at each
// level of the run.
func memoryTable(c *comparison) finding.Table {
	g := finding.Table{Title: "Memory of one instance", Head: []string{"instance", "when"}}
	if c.Levels() {
		g.Head = append(g.Head, "level")
	}
	metrics := []struct{ name, head string }{
		{sample.PayloadRSS, "resident"}, {sample.PayloadPSS, "shared in proportion"}, {sample.GuestResident, "of it the guest's"},
		{sample.VMMOverhead, "of it the VMM's"}, {sample.Mapped, "mapped"}, {sample.Dirty, "dirty"},
	}
	for _, m := range metrics {
		g.Head = append(g.Head, m.head)
	}
	threads := slices.ContainsFunc(c.Held, func(h heldInstance) bool { return h.Here[sample.VMMThreads].Value > 0 })
	if threads {
		g.Head = append(g.Head, "the VMM's threads", "under seccomp")
	}
	for _, h := range c.Held {
		when := "after boot"
		if h.Loaded {
			when = "after the load"
		}
		row := []string{headed(c, h.Target), when}
		if c.Levels() {
			row = append(row, h.Level)
		}
		for _, m := range metrics {
			cell := ""
			if e, ok := h.Here[m.name]; ok {
				cell = quantity.Of(sample.Bytes, e.Value, e.Interval) + quantity.PlusMinus(e)
			}
			row = append(row, cell)
		}
		for _, m := range []string{sample.VMMThreads, sample.VMMFiltered} {
			if e, ok := h.Here[m]; ok && threads {
				row = append(row, quantity.Number(e.Value, 3))
			} else if threads {
				row = append(row, "")
			}
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

func note(c *comparison) string {
	parts := []string{"± is half the 95 % interval; a ratio has its verdict, and is of two things measured in one block. Reads of 20 MB come out of the page cache: they show memory, not a disk; the rows past it have their own table. A guest's pass two page caches, its own and the host's: where the VMM or the host's file system cannot, the target's facts say so (direct-io)."}
	parts = append(parts, "A boot's phases are differences of neighbouring marks on the host's clock; a guest's own clock starts with its kernel, and its kernel's time is what systemd-analyze calls so, as published. A guest with systemd (--guest-rootfs) has a row of what systemd reports, the published numbers' like: kernel, initrd, userspace until nothing is left to be started. Published totals are no cost of a monitor: kernel, initrd and userspace stand apart.")
	if len(c.Held) > 0 {
		parts = append(parts, "Memory is that of the VMM's process: its guest's memory, told by its mapping, and its own; what an emulating VMM keeps of translated code is its own, and at most as much as the target's facts say.")
	}
	if slices.ContainsFunc(c.Boots, func(b machineBoot) bool { return !b.Published }) {
		parts = append(parts, "Whether a machine ran under KVM or was emulated stands among the targets' facts; the two are never compared as if they were one.")
	}
	return strings.Join(append(parts, "Source: "+c.Citation), " ")
}
