package kernelwaits

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

// churnSection is what making and removing kernel objects showed.
func churnSection(c *churned) finding.Section {
	s := finding.Section{ID: "churn", Title: "Churn", Alone: true, Note: churnNote, Data: c}
	for _, k := range c.Curves {
		if len(k.Points) > 0 {
			s.Findings = append(s.Findings, churnFinding(k))
			s.Tables = append(s.Tables, churnGrid(k))
		}
	}
	if len(c.Tree) > 0 {
		s.Tables = append(s.Tables, churnTreeGrid(c.Tree))
	}
	s.Headline = s.Findings
	s.Figures = churnFigures(c.Curves)
	return s
}

const churnNote = `Rates of a phase: tasks over its mean time. A p99 is of 100 cycles or more; ≤ stands before the longest time where there were fewer. Ranks, in brackets, order the published branches among themselves. The published tree counts samples of all CPUs: on 104 CPUs most are in osq_lock, where waiters for a mutex or rwsem spin one behind the other while its owner runs. On few CPUs owners are seldom running while others wait, so waiters sleep, and a share of samples would hardly show them: here the shares are of the time that was waited for locks.`

func churnFinding(k churnCurve) string {
	best := slices.MaxFunc(k.Points, func(a, b churnPoint) int {
		return cmp.Compare(a.Rate.Median, b.Rate.Median)
	})
	last := k.Points[len(k.Points)-1]
	rate := func(p churnPoint) string {
		return quantity.Of(sample.PerSecond, p.Rate.Median, p.Rate.Interval)
	}
	text := k.Workload + ": "
	if best.Threads != last.Threads {
		text += fmt.Sprintf("most cycles with %s, %s; ", quantity.Count(best.Threads, "thread"), rate(best))
	}
	text += fmt.Sprintf("with %s %s of cycles", quantity.Count(last.Threads, "thread"), rate(last))
	if len(last.Phases) > 0 {
		worst := slices.MaxFunc(last.Phases, func(a, b churnPhase) int { return cmp.Compare(slowest(a), slowest(b)) })
		what := "p99"
		if worst.P99 == 0 {
			what = "time"
		}
		text += fmt.Sprintf(", and the longest %s is that of %s, %s", what, worst.Name, quantity.Of(sample.Seconds, slowest(worst), stats.Interval{}))
	}
	return text + churnLocks(k) + "."
}

// churnLocks names what a workload's tasks waited for most; "" where nobody watched.
func churnLocks(k churnCurve) string {
	var parts []string
	for _, l := range k.Locks {
		if l.Share >= 0.01 {
			parts = append(parts, fmt.Sprintf("%s %.0f %%", l.Name, 100*l.Share))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "; of the time that was waited for locks: " + strings.Join(parts, ", ")
}

// slowest is a phase's p99, or where too few cycles have none, its longest time.
func slowest(p churnPhase) float64 { return cmp.Or(p.P99, p.Max) }

func churnGrid(k churnCurve) finding.Table {
	g := finding.Table{Title: k.Workload + ": cycles a second, and each phase's p50 and p99 in µs", Head: []string{"threads", "cycles/s", "95 %"}}
	for _, p := range k.Points[0].Phases {
		g.Head = append(g.Head, p.Name+" p50", "p99")
	}
	for _, p := range k.Points {
		rate := quantity.Scale{Factor: 1}.Show(p.Rate.Median, p.Rate.Interval)
		row := []string{strconv.Itoa(p.Threads), rate.Value, rate.Interval()}
		for _, phase := range p.Phases {
			tail := quantity.Digits(slowest(phase) * 1e6)
			if phase.P99 == 0 {
				tail = "≤" + tail
			}
			row = append(row, quantity.Digits(phase.P50*1e6), tail)
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

func churnTreeGrid(tree []churnBranch) finding.Table {
	workloads := slices.Sorted(maps.Keys(tree[0].Here))
	g := finding.Table{Title: "The published call tree beside ours: shares of lock waits", Head: []string{"from → to", "published, of samples", "of these"}}
	g.Head = append(g.Head, workloads...)
	for _, b := range tree {
		row := []string{b.Path, quantity.Missing, quantity.Missing}
		if b.Published > 0 {
			row[1], row[2] = fmt.Sprintf("%.1f %%", 100*b.Published), ranked(b.PublishedWait, b.PublishedRank)
		}
		for _, w := range workloads {
			row = append(row, ranked(b.Here[w], b.Rank[w]))
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// ranked is a share, with its rank where it has one.
func ranked(share float64, rank int) string {
	if rank == 0 {
		return fmt.Sprintf("%.1f %%", 100*share)
	}
	return fmt.Sprintf("%.1f %% (%d)", 100*share, rank)
}

func churnFigures(curves []churnCurve) []finding.Figure {
	rates := finding.Figure{Title: "Cycles a second over threads", X: finding.Axis{Label: "threads", Log: true}, Y: finding.Axis{Label: "cycles a second", Log: true}}
	var all []finding.Figure
	for _, k := range curves {
		if len(k.Points) < 2 {
			continue
		}
		l := finding.Line{Name: k.Workload, Look: finding.Measured}
		for _, p := range k.Points {
			l.Points = append(l.Points, finding.Point{X: float64(p.Threads), Y: p.Rate.Median, Low: p.Rate.Interval.Low, High: p.Rate.Interval.High})
		}
		rates.Lines = append(rates.Lines, l)
		if f := churnPhases(k); len(f.Lines) > 0 {
			all = append(all, f)
		}
	}
	if len(rates.Lines) == 0 {
		return nil
	}
	return append([]finding.Figure{rates}, all...)
}

func churnPhases(k churnCurve) finding.Figure {
	f := finding.Figure{Title: k.Workload + ": p99 of each phase", X: finding.Axis{Label: "threads", Log: true}, Y: finding.Axis{Label: "p99, µs", Log: true}}
	for i, phase := range k.Points[0].Phases {
		l := finding.Line{Name: phase.Name, Look: finding.Measured}
		for _, p := range k.Points {
			v := p.Phases[i].P99 * 1e6
			if v == 0 {
				continue // too few cycles for one
			}
			l.Points = append(l.Points, finding.Exactly(float64(p.Threads), v))
		}
		f.Lines = append(f.Lines, l)
	}
	return f
}
