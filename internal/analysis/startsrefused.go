package analysis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/study"
)

// refusedOf is why nothing is claimed of a cell: its group's primary table is
// refused. It is "" where something may be.
func refusedOf(tables []Table, c study.Cell) string {
	t, _ := primaryOf(tables, c)
	return t.Refused
}

// refusedAmong is why nothing is claimed of what rests on all of the points, from
// the first that is refused; "" where something may be.
func refusedAmong(points []StartsPoint) string {
	i := slices.IndexFunc(points, func(p StartsPoint) bool { return p.Refused != "" })
	if i < 0 {
		return ""
	}
	return points[i].Refused
}

// startsRefusal tells the refused groups in a sentence, each reason once; "" where
// there is none.
func startsRefusal(in StartsInput) string {
	groups := map[string][]string{} // by the reason
	var reasons []string
	for _, c := range in.Cells {
		why := strings.TrimRight(refusedOf(in.Tables, c), ".")
		if why == "" || slices.Contains(groups[why], c.Group) {
			continue
		}
		if groups[why] == nil {
			reasons = append(reasons, why)
		}
		groups[why] = append(groups[why], c.Group)
	}
	if len(reasons) == 0 {
		return ""
	}
	for i, why := range reasons {
		reasons[i] = strings.Join(groups[why], ", ") + ": " + why
	}
	return fmt.Sprintf("Refused, with every claim that rests on them: %s.", strings.Join(reasons, "; "))
}
