package bridgenetwork

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

// section is what the studies say beyond their tables.
func section(n *description, tables []analysis.Table) finding.Section {
	s := finding.Section{
		ID: name, Title: "The network between containers", Claims: n.Claims, Data: n,
		Note: fmt.Sprintf("Published: %s", n.Published.Citation),
	}
	s.Findings = slices.Concat(publishedFindings(n, tables), growthFindings(n), attachFindings(n), adviceFindings(n), splitFindings(n))
	s.Headline = s.Findings[:min(3, len(s.Findings))]
	s.Figures = figures(n, tables)
	for _, g := range []finding.Table{growthTable(n), choiceTable(n), splitTable(n), aroundTable(n)} {
		if len(g.Rows) > 0 {
			s.Tables = append(s.Tables, g)
		}
	}
	return s
}

// throughputs are the tables that the publication has a figure for.
func throughputs(tables []analysis.Table) []analysis.Table {
	return slices.DeleteFunc(slices.Clone(tables), func(t analysis.Table) bool { return !t.Primary || t.Metric.Name != sample.Throughput })
}

// publishedFindings say the three published places in words.
func publishedFindings(n *description, tables []analysis.Table) []string {
	p := n.Published.Throughput
	for _, t := range throughputs(tables) {
		var parts []string
		for _, r := range t.Rows {
			base, path := onPath(r.Target)
			var published float64
			switch {
			case r.Effect == nil || r.AA:
				continue
			case path == loopback:
				published = p.SameContainer / p.Host
			case path == onBridge:
				published = p.CrossContainer / p.Host
			default:
				continue
			}
			where := map[string]string{loopback: "one container", onBridge: "two containers on a bridge"}[path]
			if r.Effect.Verdict == analysis.NotComparable {
				parts = append(parts, fmt.Sprintf("%s (%s): no claim, the machine was too noisy; published %.3f of the host", where, base, published))
				continue
			}
			parts = append(parts, fmt.Sprintf("%s (%s): %.3f of the host%s, published %.3f",
				where, base, r.Effect.Ratio, between(r.Effect.Interval, "%.3f", 1), published))
		}
		if len(parts) > 0 {
			return []string{"Throughput, " + t.Group + ". " + strings.Join(parts, "; ") + "."} // with the fewest containers
		}
	}
	return nil
}

// between words an interval, "" where there is none.
func between(i stats.Interval, format string, scale float64) string {
	if !quantity.Known(i) {
		return ""
	}
	return fmt.Sprintf(" ("+format+" to "+format+")", scale*i.Low, scale*i.High)
}

func growthFindings(n *description) []string {
	var out []string
	for _, g := range n.Growth {
		if len(g.Points) < 2 {
			out = append(out, fmt.Sprintf("%s, %s, %s: of how the %s changes with the containers nothing is said: %s.", g.Target, g.Workload, g.Arm, g.Metric.Name, g.Why))
			continue
		}
		first, last := g.Points[0].Containers, g.Points[len(g.Points)-1].Containers
		verdict := "cannot be told from zero here"
		switch {
		case g.Verdict.Shown():
			verdict = "differs from zero"
		case g.Verdict == analysis.Same:
			verdict = "is as good as zero"
		case g.Verdict == analysis.NotComparable:
			verdict = "claims nothing"
		}
		text := fmt.Sprintf("%s, %s, %s: from %d to %d containers the %s changes by %+.4f %%%s of the maximum for each container, which %s: %s.",
			g.Target, g.Workload, g.Arm, first, last, g.Metric.Name, 100*g.Slope, between(g.Interval, "%+.4f", 100), verdict, g.Why)
		if g.Metric.Name == sample.Throughput {
			text += fmt.Sprintf(" Published: %+.4f %%.", -100*n.Loss)
		}
		out = append(out, text)
	}
	return out
}

// attachFindings say what attaching and detaching a container take, by how many there are.
func attachFindings(n *description) []string {
	var out []string
	for i, a := range n.Attaching {
		text := fmt.Sprintf("%s to attach and %s to detach with %d", a.Attach.words(), a.Detach.words(), a.Containers)
		if a.Refused {
			text += " [refused]"
		}
		if i > 0 && n.Attaching[i-1].Target == a.Target {
			out[len(out)-1] += "; " + text
			continue
		}
		out = append(out, fmt.Sprintf("A running container of %s on the network, by the number of containers: %s", a.Target, text))
	}
	for i := range out {
		out[i] += "."
	}
	return out
}

func (c cost) words() string {
	text := quantity.Of(sample.Seconds, c.Seconds, c.Interval)
	if quantity.Known(c.Interval) {
		text += fmt.Sprintf(" (%s to %s)", quantity.Of(sample.Seconds, c.Interval.Low, c.Interval), quantity.Of(sample.Seconds, c.Interval.High, c.Interval))
	}
	return text
}

// aroundTable is what stood on the network besides the two ends.
func aroundTable(n *description) finding.Table {
	g := finding.Table{Title: "What stood on the network", Head: []string{"target and workload", "environment", "containers", "nftables rules", "iptables entries", "userland proxies", "DNS servers"}}
	for _, a := range n.Around {
		g.Rows = append(g.Rows, []string{a.Target + ", " + a.Workload, a.Level, quantity.Number(a.Containers, 0),
			quantity.Number(a.NFTRules, 0), quantity.Number(a.IPTables, 0), quantity.Number(a.Proxies, 0), quantity.Number(a.Resolvers, 0)})
	}
	return g
}

// adviceFindings are the choices that gain, the largest first.
func adviceFindings(n *description) []string {
	var gains []choice
	for _, c := range n.Choices {
		if c.Verdict.Shown() && c.Gain > 1 {
			gains = append(gains, c)
		}
	}
	slices.SortStableFunc(gains, func(a, b choice) int {
		return int(math.Copysign(1, b.Gain-a.Gain))
	})
	var out []string
	for _, c := range gains[:min(6, len(gains))] {
		change, share := "raises", func(gain float64) float64 { return gain - 1 }
		if c.Metric.Better == sample.Lower {
			change, share = "lowers", func(gain float64) float64 { return 1 - 1/gain }
		}
		span := c.Interval
		span.Low, span.High = share(span.Low), share(span.High)
		what := c.What
		if c.How != "" {
			what += " (" + c.How + ")"
		}
		out = append(out, fmt.Sprintf("Advice for %s: %s %s %s by %.0f %%%s (%s).",
			c.Where, what, change, c.Metric.Name, 100*share(c.Gain), between(span, "%.0f", 100), c.Workload))
	}
	return out
}

// growthTable are the slopes, the published one below.
func growthTable(n *description) finding.Table {
	g := finding.Table{Title: "Change for each container on the bridge", Head: []string{"target and workload", "others", "containers", "change %", "from", "to", "p", "verdict", "blocks", "neighbours read back"}}
	for _, x := range n.Growth {
		var counts, tables []string
		for _, p := range x.Points {
			counts = append(counts, strconv.Itoa(p.Containers))
			if v, ok := x.Neighbours[p.Containers]; ok {
				tables = append(tables, quantity.Number(v, 0))
			}
		}
		row := []string{x.Target + ", " + x.Workload, x.Arm, strings.Join(counts, " "), fmt.Sprintf("%+.4f", 100*x.Slope), "", "", "", string(x.Verdict), strconv.Itoa(x.Blocks), strings.Join(tables, " ")}
		if quantity.Known(x.Interval) {
			row[4], row[5], row[6] = fmt.Sprintf("%+.4f", 100*x.Interval.Low), fmt.Sprintf("%+.4f", 100*x.Interval.High), fmt.Sprintf("%.3g", x.P)
		}
		g.Rows = append(g.Rows, row)
	}
	if len(g.Rows) > 0 {
		g.Rows = append(g.Rows, []string{"· published, throughput", "permanent neighbours", "2 to 500", fmt.Sprintf("%+.4f", -100*n.Loss), "", "", "", "", "", "all"})
	}
	return g
}

// choiceTable are all choices, numbered.
func choiceTable(n *description) finding.Table {
	g := finding.Table{Title: "What one way gains against another (above 1 is better)", Head: []string{"no.", "choice", "where", "metric", "gain", "from", "to", "p", "blocks", "verdict", "how"}}
	for i, c := range n.Choices {
		row := []string{strconv.Itoa(i + 1), c.What, c.Where, c.Workload + ", " + c.Metric.Name + better(c.Metric), fmt.Sprintf("×%.3f", c.Gain), "", "", "", strconv.Itoa(c.Blocks), string(c.Verdict), c.How}
		if quantity.Known(c.Interval) {
			row[5], row[6], row[7] = fmt.Sprintf("%.3f", c.Interval.Low), fmt.Sprintf("%.3f", c.Interval.High), fmt.Sprintf("%.3g", c.P)
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// splitFindings say what each further container costs.
func splitFindings(n *description) []string {
	var out []string
	for _, s := range n.Splits {
		text := fmt.Sprintf("Split a service of %s (%s): each further container on one host adds %s to %s",
			s.Target, s.Level, splitCost(s, s.Places[0].Points[0]), splitOf(s))
		if len(s.Places) > 1 {
			text += fmt.Sprintf("; two containers on two hosts add %s", splitCost(s, s.Places[1].Points[0]))
		}
		out = append(out, text+".")
	}
	return out
}

// splitOf words what is added to.
func splitOf(s split) string {
	if s.Metric.Name == sample.RTT {
		return "a request's time (" + s.Workload + ")"
	}
	return "the CPU time of each Gbit (" + s.Workload + ")"
}

func splitCost(s split, p splitPoint) string {
	unit := quantity.ScaleFor(s.Metric.Unit, []float64{p.Added})
	text := quantity.Rounded(p.Added, s.Metric.Unit)
	if quantity.Known(p.Interval) {
		text += fmt.Sprintf(" (%.3g to %.3g)", p.Interval.Low/unit.Factor, p.Interval.High/unit.Factor)
	}
	return text
}

// splitTable is what further containers add, by their number.
func splitTable(n *description) finding.Table {
	g := finding.Table{Title: "What splitting a service into k containers adds (k - 1 hops, against processes in one container)"}
	for _, s := range n.Splits {
		for _, p := range s.Places {
			if g.Head == nil {
				g.Head = []string{"what", "where"}
				for _, x := range p.Points {
					g.Head = append(g.Head, fmt.Sprintf("k = %d", x.K))
				}
			}
			row := []string{splitOf(s), s.Target + ", " + s.Level + ", " + p.Place}
			for _, x := range p.Points {
				row = append(row, splitCost(s, x))
			}
			g.Rows = append(g.Rows, row)
		}
	}
	return g
}

func better(m sample.Metric) string {
	if m.Better == sample.Lower {
		return " (lower is better)"
	}
	return ""
}
