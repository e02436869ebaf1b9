package kernelhistory

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
)

// section is what changed from each kernel to the next.
func section(all []step) finding.Section {
	s := finding.Section{ID: "kernels", Title: "From kernel to kernel", Note: note, TableFirst: true, Data: all}
	s.Tables = []finding.Table{
		table(all, "What changed", func(st step) bool { return st.Judged }),
		table(all, "The parts, described", func(st step) bool { return !st.Judged }),
	}
	s.Tables = slices.DeleteFunc(s.Tables, func(t finding.Table) bool { return len(t.Rows) == 0 })
	for _, st := range sortedBySize(all) {
		s.Findings = append(s.Findings, words(st))
	}
	if len(s.Findings) == 0 {
		s.Findings = []string{"No change from one kernel to the next is certain."}
	}
	s.Headline = s.Findings[:min(3, len(s.Findings))]
	return s
}

const note = `A ratio is the later kernel's value divided by the earlier one's, from the same blocks and rounds. The intervals in a row of the first table hold together; those of the parts are 95 % each and get no verdict. The guests differ in their kernel and its modules alone: the machine, the files and the programs are the same. A distribution's configuration differs between releases too, so a change is the kernel's as that distribution builds it. Where the guests' CPU is emulated, ratios count translated instructions: compare them with emulated ones alone.`

// sortedBySize are the certain changes, the largest first.
func sortedBySize(all []step) []step {
	certain := slices.DeleteFunc(slices.Clone(all), func(st step) bool { return !st.Judged || !st.Effect.Verdict.Shown() || st.Effect.Difference != nil })
	slices.SortStableFunc(certain, func(a, b step) int { return cmp.Compare(distance(b), distance(a)) })
	return certain
}

// distance is how far a ratio lies from 1, in either direction.
func distance(st step) float64 { return max(st.Effect.Ratio, 1/st.Effect.Ratio) }

// words is a certain change as a sentence: "cgroups: cycles 2.1 times faster ...".
func words(st step) string {
	r := quantity.Ratio(st.Effect.Ratio, st.Effect.Interval)
	return fmt.Sprintf("%s on %s: %s since %s (%s ×%s %s against %s).", st.Group, st.Machine, st.Effect.Size, shown(st.To), st.Metric, r.Value, r.Interval(), shown(st.From))
}

// shown is a kernel as people read it: a release, or a file's last two names.
func shown(kernel string) string {
	if driver.IsRelease(kernel) {
		return kernel
	}
	return path.Join(path.Base(path.Dir(kernel)), path.Base(kernel))
}

// table has a row for each number and a column for each step.
func table(all []step, title string, of func(step) bool) finding.Table {
	t := finding.Table{Title: title, Head: []string{"workload", "metric"}}
	rows := map[string]int{}
	for _, st := range all {
		if !of(st) {
			continue
		}
		head := st.Machine + ": " + shown(st.From) + " to " + shown(st.To)
		column := slices.Index(t.Head, head)
		if column < 0 {
			column, t.Head = len(t.Head), append(t.Head, head)
		}
		key := st.Group + " " + st.Metric
		if _, ok := rows[key]; !ok {
			rows[key] = len(t.Rows)
			t.Rows = append(t.Rows, []string{st.Group, st.metric.Name})
		}
		row := &t.Rows[rows[key]]
		for len(*row) <= column {
			*row = append(*row, quantity.Missing)
		}
		(*row)[column] = ratio(st)
	}
	for i := range t.Rows {
		for len(t.Rows[i]) < len(t.Head) {
			t.Rows[i] = append(t.Rows[i], quantity.Missing)
		}
	}
	return t
}

// ratio shows a step with its interval and verdict.
func ratio(st step) string {
	if st.Effect.Difference != nil {
		return quantity.Missing
	}
	r := quantity.Ratio(st.Effect.Ratio, st.Effect.Interval)
	return strings.TrimSpace(fmt.Sprintf("×%s %s %s", r.Value, r.Interval(), st.Effect.Verdict))
}
