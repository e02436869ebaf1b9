package analysis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/sample"
)

// usualWay is how trials were measured that say nothing of it.
const usualWay = "measured in the usual way"

// ways are how the cell's trials were measured, each once, sorted.
func (c *column) ways() (all []string) {
	said := 0
	for _, n := range c.notes {
		if n.first.Kind == sample.OtherWay {
			all = append(all, n.first.Text)
			said += n.count
		}
	}
	if said < c.trials-c.failed {
		all = append(all, usualWay)
	}
	slices.Sort(all)
	return all
}

// otherWays is why two cells cannot be compared, that were measured in different ways; ""
// where they were measured alike, or one of them has no samples.
func otherWays(a, b *column, nameA, nameB string) string {
	if a == nil || b == nil || len(a.blocks) == 0 || len(b.blocks) == 0 {
		return ""
	}
	x, y := a.ways(), b.ways()
	if len(x) < 2 && len(y) < 2 && slices.Equal(x, y) {
		return ""
	}
	return fmt.Sprintf("Measured in different ways: the numbers of %s are %s, those of %s %s.", nameA, strings.Join(x, " and "), nameB, strings.Join(y, " and "))
}
