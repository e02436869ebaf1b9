package concurrentstart

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
)

// section is many instances at once, next to the publication.
func section(s *description, claims []finding.Claim) finding.Section {
	findings := findingsOf(s)
	out := finding.Section{
		ID: name, Title: "Many containers at once", Headline: findings[:min(3, len(findings))], Findings: findings,
		Claims: claims, Note: note(s), Alone: true, Data: s,
	}
	out.Figures = append(growthFigures(s), timeFigure(s)...)
	out.Figures = append(out.Figures, scalingFigures(s)...)
	for _, g := range []finding.Table{
		startsTable(s), growthTable(s), timeTable(s), eachTable(s), lawsTable(s), lawChoiceTable(s), countersTable(s), rolesTable(s), scalingTable(s), uslTable(s), heldTable(s), failedTable(s),
	} {
		if len(g.Rows) > 0 {
			out.Tables = append(out.Tables, g)
		}
	}
	return out
}

// note says what the numbers are and which are missing.
func note(s *description) string {
	note := "Elapsed is from the first request until the last container had ended or, where they are held, acted; latency from a container's request until its payload acted. " +
		"A number is the median over blocks, in brackets its 95 % interval, or the range of the blocks where there are fewer than six. " +
		"Rows that begin with · are published: the counters there are those of the script and of its docker clients, without the daemon, and the row of one container was measured without the script."
	if anyValue(s.Curves, sample.Counted) {
		note += " The CPU has too few registers for all counters at once: they are scaled up by the time in which they were not counted, as perf stat does."
	}
	if !anyValue(s.Curves, sample.LockWait) {
		note += " Waits for kernel locks were not watched (--probes locks)."
	}
	if !anyValue(s.Curves, sample.RunQueueWait) {
		note += " This kernel has no schedstats, so that waits on run queues are told by PSI alone."
	} else {
		note += " Waits on run queues are those of all tasks of the machine, others' too, by the number of containers."
	}
	if slices.ContainsFunc(s.Curves, untoldRoles) {
		note += " Context switches are told by role as long as none has more than 64 groups, for a counter of a group makes every switch a little slower."
	}
	unread := map[string]string{}
	for _, c := range s.Curves {
		if c.Unread != "" {
			unread[c.Target] = c.Unread
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unread)) {
		note += fmt.Sprintf(" Of %s nobody can read the CPU time of the %s: what the CPUs did for its containers is not told apart from what they did for others.", name, unread[name])
	}
	if s.Image != "" {
		note += " " + imageNote(s)
	}
	return note + missingNote(s.Missing)
}

// missingNote names the counters that the machine lacks, each reason once.
func missingNote(missing map[string]string) string {
	byReason := map[string][]string{}
	for _, counter := range slices.Sorted(maps.Keys(missing)) {
		byReason[missing[counter]] = append(byReason[missing[counter]], counter)
	}
	text := ""
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		text += fmt.Sprintf(" Not counted here: %s (%s).", strings.Join(byReason[reason], ", "), reason)
	}
	return text
}

// anyValue says that some point has the metric.
func anyValue(curves []curve, metric string) bool {
	return len(measured([]column{{metric: metric}}, curves, "")) > 0
}

// untoldRoles says that some point has its context switches by no role.
func untoldRoles(c curve) bool {
	return slices.ContainsFunc(c.Points, func(p point) bool {
		_, all := p.Values[sample.Switches]
		_, told := p.Values[sample.RoleSwitches("payload").Name]
		return p.N > 64 && all && !told
	})
}

// imageNote says what acted means of a user's own image.
func imageNote(s *description) string {
	note := fmt.Sprintf("What was started is the own command of the image %s, as it is: it acted at its first byte of standard output", s.Image)
	switch {
	case s.Silent == 1:
		note = fmt.Sprintf("What was started is the own command of the image %s, as it is: it prints nothing, so it acted at its end", s.Image)
	case s.Silent > 0:
		note += fmt.Sprintf("; %s of the containers printed nothing, and acted at their end", quantity.Percent(s.Silent))
	}
	return note + ". Containers that are held run tare's own payload in that image."
}
