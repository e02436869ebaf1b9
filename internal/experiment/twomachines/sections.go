package twomachines

import (
	"fmt"
	"strings"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// section says what to place together.
func section(splits []split, refused []refusal) finding.Section {
	s := finding.Section{
		ID: name, Title: "What to place together", TableFirst: true, Data: splits,
		Note: fmt.Sprintf("A call is one request with its answer. Its added time is the median of the blocks' differences to client and server in one place on the host, "+
			"with its 95 %% interval. A service that works for less than the time in the last column for each call loses more than %s of its time by the split; "+
			"calls of one request that follow each other add up, calls at once do not.", quantity.Percent(share)),
	}
	table := finding.Table{Title: "A call to a server at another place", Head: []string{"server", "calls", "a call takes", "more than in one place", "worth a split from"}}
	for _, one := range splits {
		table.Rows = append(table.Rows, []string{one.Target, one.Workload, time(one.Call, stats.None(one.Call)), time(one.Added, one.Interval), from(one)})
		s.Findings = append(s.Findings, one.sentence())
	}
	for _, r := range refused {
		s.Findings = append(s.Findings, fmt.Sprintf("%s, %s: nothing is claimed. %s", r.target, r.workload, r.why))
	}
	s.Tables = []finding.Table{table}
	if dearest := longest(splits); dearest != nil {
		s.Headline = []string{dearest.sentence()}
	}
	return s
}

func time(seconds float64, i stats.Interval) string { return quantity.Of(sample.Seconds, seconds, i) }

// from is the least work for each call that is worth the split.
func from(s split) string {
	if s.Work == 0 {
		return quantity.Missing
	}
	return quantity.Rounded(s.Work, sample.Seconds) + " of work for each call"
}

func (s split) sentence() string {
	if s.Work == 0 {
		return fmt.Sprintf("%s, %s: a call is not shown to take longer than in one place.", s.Target, s.Workload)
	}
	return fmt.Sprintf("%s, %s: a call takes %s longer than in one place; a service that works less than %s for each call is better placed together.",
		s.Target, s.Workload, time(s.Added, s.Interval), quantity.Rounded(s.Work, sample.Seconds))
}

// longest is the split on another machine whose calls cost most; nil for none.
func longest(splits []split) *split {
	var found *split
	for i, s := range splits {
		_, path, _ := strings.Cut(s.Target, study.PathSign)
		if strings.HasPrefix(path, "remote") && s.Work > 0 && (found == nil || s.Added > found.Added) {
			found = &splits[i]
		}
	}
	return found
}
