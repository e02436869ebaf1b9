package unixbench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/stats"
)

// section is the Unix tests next to the publication.
func section(u *description) finding.Section {
	return finding.Section{
		ID: name, Title: "Published beside this machine", Headline: u.Headline, Findings: u.Findings,
		Figures: figures(u), Tables: tables(u), Claims: u.Claims, Note: note(u), Alone: true, Data: u,
	}
}

// tables are the tables of a run of the Unix tests: the scores, their fall
// beside the published one, and this machine beside the published machines.
func tables(u *description) []finding.Table {
	var out []finding.Table
	for _, p := range placesOf(u) {
		place := p.target + ", " + placeName(p.environment)
		if same := sameAs(u.Curves, p.environment); same != "" {
			place += " (the same here: " + same + ")"
		}
		curves := p.curves(u)
		out = append(out, scoreGrid(u, place, curves))
		if slices.ContainsFunc(curves, func(c curve) bool { return c.Law != nil }) {
			out = append(out, fallGrid(u, place, curves))
		}
	}
	return append(out, platformGrids(u)...)
}

// place is a target in an environment.
type place struct{ target, environment string }

// placesOf are those that have curves, in their order. A control stands in
// the others' tables as n = 0 where there are others.
func placesOf(u *description) []place {
	var out, alone []place
	for _, c := range u.Curves {
		if c.MeasuredAs != "" {
			continue // told with the environment that was measured
		}
		p := place{c.Target, c.Environment}
		to := &alone
		if c.At(0) != nil || c.Law != nil {
			to = &out
		}
		if !slices.Contains(*to, p) {
			*to = append(*to, p)
		}
	}
	if len(out) == 0 {
		return alone
	}
	return out
}

// curves of a place: the tests, then the indexes.
func (p place) curves(u *description) []curve {
	var out []curve
	for _, c := range u.Curves {
		if c.Target == p.target && c.Environment == p.environment {
			out = append(out, c)
		}
	}
	return out
}

// counts are the numbers of containers that any of the curves has.
func counts(curves []curve) []int {
	var out []int
	for _, c := range curves {
		for _, p := range c.Points {
			if !slices.Contains(out, p.N) {
				out = append(out, p.N)
			}
		}
	}
	slices.Sort(out)
	return out
}

// columnsOf are the heads of columns, one for each number of containers.
func columnsOf(ns []int, head func(int) string) []string {
	out := make([]string, len(ns))
	for i, n := range ns {
		out[i] = head(n)
	}
	return out
}

func countHead(n int) string {
	if n == 0 {
		return "host"
	}
	return strconv.Itoa(n)
}

// scoreGrid is Data_N of each test with half its interval, and the spread.
func scoreGrid(u *description, place string, curves []curve) finding.Table {
	ns := counts(curves)
	g := finding.Table{Title: place + ": score in each of n containers", Head: append([]string{"test"}, columnsOf(ns, countHead)...)}
	g.Head = append(g.Head, "evenness")
	for _, c := range curves {
		row := []string{c.Name() + refusedMark(u.WhyRefused(c))}
		for _, n := range ns {
			row = append(row, scoreCell(c.At(n)))
		}
		g.Rows = append(g.Rows, append(row, slowestCell(c)))
	}
	return g
}

func scoreCell(p *point) string {
	switch {
	case p == nil:
		return ""
	case len(p.Repetitions) == 0:
		return "failed"
	}
	return scoreText(p.Data.Value) + quantity.PlusMinus(p.Data)
}

// slowestCell is the worst spread between containers, and where it was.
func slowestCell(c curve) string {
	least, at := 2., 0
	for _, p := range c.Points {
		if p.Spread != nil && p.Spread.Slowest < least {
			least, at = p.Spread.Slowest, p.N
		}
	}
	if at == 0 {
		return ""
	}
	return fmt.Sprintf("%s (n = %d)", quantity.Number(least, 2), at)
}

// fallGrid is each test relative to one container, the published row below the
// machine's own. Exponents that are set beside each other are fitted over the
// same numbers of containers, in a column of their own where there are more here.
func fallGrid(u *description, place string, curves []curve) finding.Table {
	ns := slices.DeleteFunc(counts(curves), func(n int) bool { return n < 2 })
	g := finding.Table{Title: place + ": relative to one container", Head: append([]string{"test"}, columnsOf(ns, strconv.Itoa)...)}
	here, shared := fitRanges(curves)
	g.Head = append(g.Head, "b of 1/n^b, "+here)
	if shared != here && shared != "" {
		g.Head = append(g.Head, "b, "+shared)
	}
	width := len(g.Head)
	g.Head = append(g.Head, "contention", "coherency", "bends at n", "falls")
	for _, c := range curves {
		fits := []string{"", ""}
		if c.Law != nil {
			fits[0] = spanCell(c.Law.Decay, 2)
			if c.Law.Beside != nil {
				fits[1] = spanCell(c.Law.Beside.Decay, 2)
			}
		}
		g.Rows = append(g.Rows, fallRow(c.Name()+refusedMark(u.WhyRefused(c)), ns, c, fits[:width-len(ns)-1], c.Law))
		if p := u.PublishedCurve(c.Environment, c.Test); p != nil && p.Clock == c.Clock {
			fits, law := []string{"", ""}, (*fallLaw)(nil)
			if c.Law != nil && c.Law.Beside != nil {
				law = &c.Law.Beside.Published
				fits[width-len(ns)-2] = spanCell(law.Decay, 2)
			}
			g.Rows = append(g.Rows, fallRow("· published", ns, *p, fits[:width-len(ns)-1], law))
		}
	}
	return g
}

// fitRanges are the widest ranges of containers that laws are fitted over: here,
// and where there is a published row.
func fitRanges(curves []curve) (here, both string) {
	var all, common []int
	for _, c := range curves {
		if c.Law == nil {
			continue
		}
		if n := c.Counts(); len(n) > len(all) {
			all = n
		}
		if b := c.Law.Beside; b != nil && len(b.Counts) > len(common) {
			common = b.Counts
		}
	}
	return rangeOf(all), rangeOf(common)
}

func fallRow(name string, ns []int, c curve, fits []string, law *fallLaw) []string {
	row := []string{name}
	for _, n := range ns {
		cell := ""
		if p := c.At(n); p != nil && p.ToOne != nil {
			cell = quantity.Number(p.ToOne.Value, 2) + quantity.PlusMinus(*p.ToOne)
		}
		row = append(row, cell)
	}
	row = append(row, fits...)
	if law == nil {
		return append(row, "", "", "", "")
	}
	contention, coherency, bend := "", "", ""
	if law.USL != nil {
		contention, coherency = spanCell(law.USL.Contention, 2), spanCell(law.USL.Coherency, 3)
	}
	if law.Capacity != nil {
		bend = spanCell(*law.Capacity, 1)
	}
	return append(row, contention, coherency, bend, string(law.Falls))
}

func spanCell(e stats.Estimate, decimals int) string {
	s := quantity.Number(e.Value, decimals)
	if quantity.Known(e.Interval) {
		s += " [" + quantity.Number(e.Interval.Low, decimals) + ", " + quantity.Number(e.Interval.High, decimals) + "]"
	}
	return s
}

// platformGrids set the machines beside each other, in one container each.
func platformGrids(u *description) []finding.Table {
	var out []finding.Table
	for _, environment := range []string{envAllN, envAllOne} {
		g := finding.Table{Title: "Machines in one container, " + placeName(environment), Head: []string{"test"}}
		var all []platform
		for _, p := range u.Platforms {
			if p.Environment == environment {
				all = append(all, p)
				g.Head = append(g.Head, p.Name)
			}
		}
		for _, test := range append(slices.Clone(u.Tests), "index") {
			row := []string{test}
			for _, p := range all {
				cell := quantity.Missing
				if e, ok := p.Scores[test]; ok {
					cell = scoreText(e.Value) + quantity.PlusMinus(e) + refusedMark(p.Refused[test])
				}
				row = append(row, cell)
			}
			g.Rows = append(g.Rows, row)
		}
		out = append(out, g)
	}
	return out
}

// note says what the indexes hold.
func note(u *description) string {
	marked := ""
	if slices.ContainsFunc(u.Curves, func(c curve) bool { return u.WhyRefused(c) != "" }) {
		marked = " " + refusedLegend
	}
	return fmt.Sprintf("“index” holds %s: %s. Whetstone in it is by CPU time; the published index is recomputed over the same, as its own (“index as published”) holds file copies that the tables do not list: it stands beside this machine's over all twelve tests, where all ran. %s ± is half the 95 %% interval; evenness is the slowest container by the fastest in the worst repetition.%s Source: %s",
		quantity.Count(len(u.Tests), "test"), strings.Join(u.Tests, ", "), u.Note, marked, u.Citation)
}
