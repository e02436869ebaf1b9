package concurrentstart

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/study"
)

// refusedOf is why nothing is claimed of a cell: its group's primary table is
// refused. It is "" where something may be.
func refusedOf(tables []analysis.Table, c study.Cell) string {
	i := slices.IndexFunc(tables, func(t analysis.Table) bool { return t.Primary && t.Group == c.Group })
	if i < 0 {
		return ""
	}
	return tables[i].Refused
}

// refusedAmong is why nothing is claimed of what rests on all of the points, from
// the first that is refused; "" where something may be.
func refusedAmong(points []point) string {
	i := slices.IndexFunc(points, func(p point) bool { return p.Refused != "" })
	if i < 0 {
		return ""
	}
	return points[i].Refused
}

// refusal tells the refused groups in a sentence, each reason once; "" where
// there is none.
func refusal(in input) string {
	refused := map[string][]string{} // groups, by the reason
	var reasons []string
	for _, c := range in.Cells {
		why := strings.TrimRight(refusedOf(in.Tables, c), ".")
		if why == "" || slices.Contains(refused[why], c.Group) {
			continue
		}
		if refused[why] == nil {
			reasons = append(reasons, why)
		}
		refused[why] = append(refused[why], c.Group)
	}
	if len(reasons) == 0 {
		return ""
	}
	for i, why := range reasons {
		reasons[i] = strings.Join(refused[why], ", ") + ": " + why
	}
	return fmt.Sprintf("Refused, with every claim that rests on them: %s.", strings.Join(reasons, "; "))
}
