package cores

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/stats"
)

// section says it.
func section(d description) finding.Section {
	s := finding.Section{
		ID: name, Title: "Work over CPUs", Data: d, Alone: true, TableFirst: true,
		Tables: []finding.Table{growthTable(d)}, Figures: figures(d),
		Note: fmt.Sprintf("Speed is against %s, within rounds or blocks; its part of the CPUs is the speed by how many times as many they are. Intervals of one workload on one target hold together. "+
			"Contention is the part of the work that waits its turn, coherency the cost of keeping pairs coherent (Gunther's law); they take three numbers of CPUs. "+
			"A CPU is a hardware thread; two may share a core. The clock is not measured: if CPUs run slower when more of them work, the speeds have that loss in them.", quantity.Count(d.Least, "CPU")),
	}
	if laws := lawTable(d); len(laws.Rows) > 0 {
		s.Tables = append(s.Tables, laws)
	}
	if len(d.Causes) > 0 {
		s.Tables = append(s.Tables, causeTable(d))
	}
	if len(d.Nodes) > 0 {
		s.Tables = append(s.Tables, nodeTable(d))
	}
	if len(d.Causes) > 0 {
		s.Findings = append(s.Findings, publishedSentence(d, d.Causes[0]))
	}
	for _, c := range d.Causes {
		s.Findings = append(s.Findings, causeSentences(d, c)...)
	}
	s.Findings = append(s.Findings, growthSentence(d)...)
	s.Headline = s.Findings[:min(len(s.Findings), 3)]
	s.Findings = append(s.Findings, refusedSentences(d)...)
	return s
}

func ratio(v float64, i stats.Interval) string { return quantity.Ratio(v, i).String() }

// certain tells by an interval whether a ratio lies below 1, above, or neither is shown.
func certain(s step) string {
	switch {
	case s.Interval.Decides() && s.Interval.High < 1:
		return "less"
	case s.Interval.Decides() && s.Interval.Low > 1:
		return "more"
	}
	return "not shown to differ"
}

// causeSentences say which of the causes costs, one sentence each.
func causeSentences(d description, c cause) []string {
	many, one := quantity.Count(d.Most, "CPU"), quantity.Count(d.Least, "CPU")
	say := func(text string, s step, of string) string {
		return fmt.Sprintf(text+" %s of %s: %s.", ratio(s.Ratio, s.Interval), of, certain(s))
	}
	return []string{
		say("System calls in "+c.Target+", all processes on one open file:", c.File, "what they do on files of their own"),
		say("System calls in "+c.Target+", each of "+strconv.Itoa(d.Most)+" processes with its own file:", c.Each, "one process alone on "+many),
		say("System calls in "+c.Target+", one process on "+many+":", c.Alone, "the same on "+one),
	}
}

// publishedSentence is the row that the arms explain, next to the largest cause here.
func publishedSentence(d description, c cause) string {
	text := "A published study found the system calls of all processes together at scores of 1221, 703 and 439 on machines of 4, 8 and 16 cores (docker-on-loongson). "
	var largest step
	why := ""
	for _, one := range []struct {
		step
		words string
	}{{c.File, "all processes on one open file"}, {c.Each, "many processes at once"}, {c.Alone, "more CPUs by themselves"}} {
		if certain(one.step) == "less" && (why == "" || one.Ratio < largest.Ratio) {
			largest, why = one.step, one.words
		}
	}
	if why == "" {
		return text + "Here, in " + c.Target + ", none of the causes is shown to cost."
	}
	return text + fmt.Sprintf("Here, in %s on %s, the largest cause is %s: they leave %s of the speed.", c.Target, quantity.Count(d.Most, "CPU"), why, ratio(largest.Ratio, largest.Interval))
}

// refusedSentences say of what nothing is claimed, each reason once.
func refusedSentences(d description) []string {
	var order []string
	names := map[string][]string{}
	for _, r := range d.Refused {
		if names[r.Why] == nil {
			order = append(order, r.Why)
		}
		names[r.Why] = append(names[r.Why], r.What)
	}
	var out []string
	for _, why := range order {
		out = append(out, fmt.Sprintf("Nothing is claimed of %s. %s", strings.Join(names[why], ", "), why))
	}
	return out
}

// growthSentence names what grows best and worst with the CPUs on each target.
func growthSentence(d description) []string {
	var out []string
	for _, target := range targetsOf(d) {
		var best, worst *curve
		for i, c := range d.Curves {
			if c.Target != target || c.Workload == onlyOne || c.last().refused() {
				continue
			}
			if best == nil || c.last().Speed > best.last().Speed {
				best = &d.Curves[i]
			}
			if worst == nil || c.last().Speed < worst.last().Speed {
				worst = &d.Curves[i]
			}
		}
		if best == nil {
			continue
		}
		text := fmt.Sprintf("On %s, %s is %s times as fast as on %s in %s", quantity.Count(d.Most, "CPU"),
			best.Workload, ratio(best.last().Speed, best.last().Interval), quantity.Count(d.Least, "CPU"), target)
		if worst != best {
			text += fmt.Sprintf(", and %s %s times", worst.Workload, ratio(worst.last().Speed, worst.last().Interval))
		}
		out = append(out, text+".")
	}
	return out
}

func (c curve) last() point { return c.Points[len(c.Points)-1] }

func targetsOf(d description) []string {
	var names []string
	for _, c := range d.Curves {
		if !slices.Contains(names, c.Target) {
			names = append(names, c.Target)
		}
	}
	return names
}

func growthTable(d description) finding.Table {
	t := finding.Table{Title: "Speed by number of CPUs", Head: []string{"workload", "target", "CPUs", "cores", "rate", "speed", "part of the CPUs", "verdict"}}
	for _, c := range d.Curves {
		scale := quantity.ScaleFor(c.Metric.Unit, []float64{c.Points[0].Rate})
		for _, p := range c.Points {
			row := []string{c.Workload, c.Target, strconv.Itoa(p.CPUs), "", quantity.WithUnit(scale.Show(p.Rate, stats.None(p.Rate)).Value, scale.Unit), "1", "", ""}
			if p.Cores > 0 {
				row[3] = strconv.Itoa(p.Cores)
			}
			switch {
			case p.refused():
				row[5], row[7] = quantity.Missing, string(p.Verdict)
			case p.Level != c.Points[0].Level:
				row[5], row[7] = ratio(p.Speed, p.Interval), string(p.Verdict)
				if c.Workload != onlyOne {
					row[6] = quantity.Percent(p.Speed * float64(c.Points[0].CPUs) / float64(p.CPUs))
				}
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

func lawTable(d description) finding.Table {
	t := finding.Table{Title: "The law of scalability", Head: []string{"workload", "target", "contention", "95 % interval", "coherency", "95 % interval", "most speed at"}}
	interval := func(e stats.Estimate) string {
		if !quantity.Known(e.Interval) {
			return ""
		}
		return "[" + quantity.Digits(e.Interval.Low) + ", " + quantity.Digits(e.Interval.High) + "]"
	}
	for _, c := range d.Curves {
		if c.USL == nil || c.Workload == onlyOne {
			continue
		}
		peak := ""
		if c.USL.Peak != nil {
			peak = quantity.Number(c.USL.Peak.Value, 0) + " CPUs"
		}
		t.Rows = append(t.Rows, []string{c.Workload, c.Target, quantity.Digits(c.USL.Contention.Value), interval(c.USL.Contention),
			quantity.Digits(c.USL.Coherency.Value), interval(c.USL.Coherency), peak})
	}
	return t
}

func causeTable(d description) finding.Table {
	t := finding.Table{Title: fmt.Sprintf("Why system calls fall, on %s", quantity.Count(d.Most, "CPU")), Words: true,
		Head: []string{"target", "one process, by that on " + quantity.Count(d.Least, "CPU"), "each of many, by one", "one open file, by files of their own"}}
	for _, c := range d.Causes {
		cell := func(s step) string { return ratio(s.Ratio, s.Interval) + " " + certain(s) }
		t.Rows = append(t.Rows, []string{c.Target, cell(c.Alone), cell(c.Each), cell(c.File)})
	}
	return t
}

func nodeTable(d description) finding.Table {
	t := finding.Table{Title: "Memory of another NUMA node", Head: []string{"workload", "target", "speed by that with its own memory"}}
	for _, n := range d.Nodes {
		t.Rows = append(t.Rows, []string{n.Workload, n.Target, ratio(n.Ratio, n.Interval)})
	}
	return t
}

// figures are the speeds over CPUs, one figure a target, with the laws.
func figures(d description) []finding.Figure {
	var out []finding.Figure
	for _, target := range targetsOf(d) {
		f := finding.Figure{Title: "Speed over CPUs in " + target, Beside: len(out)%2 == 1,
			X: finding.Axis{Label: "CPUs"}, Y: finding.Axis{Label: "speed against " + quantity.Count(d.Least, "CPU"), Zero: true}}
		for _, c := range d.Curves {
			if c.Target != target || c.last().refused() {
				continue
			}
			f.Lines = append(f.Lines, line(c))
			if c.USL != nil && c.Workload != onlyOne {
				f.Lines = append(f.Lines, law(c))
			}
		}
		if len(f.Lines) > 0 {
			out = append(out, f)
		}
	}
	return out
}

func line(c curve) finding.Line {
	l := finding.Line{Name: c.Workload, Look: finding.Measured}
	for _, p := range c.Points {
		if p.refused() {
			continue
		}
		l.Points = append(l.Points, finding.Estimated(float64(p.CPUs), stats.Estimate{Value: p.Speed, Interval: p.Interval}))
	}
	return l
}

// steps of a law's line.
const steps = 32

func law(c curve) finding.Line {
	l := finding.Line{Name: c.Workload + ", law", Look: finding.Fit}
	from, to := float64(c.Points[0].CPUs), float64(c.last().CPUs)
	scale := c.USL.At(from)
	for i := range steps + 1 {
		n := from + (to-from)*float64(i)/steps
		l.Points = append(l.Points, finding.Exactly(n, c.USL.At(n)/scale))
	}
	return l
}
