package bridgenetwork

import (
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/study"
)

// description is what a run says of the network beyond its tables.
type description struct {
	Published *source         `json:"published"`
	Loss      float64         `json:"loss"` // published loss per container, as a share of the maximum
	Growth    []growth        `json:"growth,omitempty"`
	Choices   []choice        `json:"choices,omitempty"`
	Splits    []split         `json:"splits,omitempty"`
	Attaching []attaching     `json:"attaching,omitempty"`
	Around    []around        `json:"around,omitempty"`
	Claims    []finding.Claim `json:"claims,omitempty"`
}

// describe makes the description of a run whose tables are already made.
func describe(in analysis.Input, tables []analysis.Table, d *source) (*description, error) {
	r := reader{in.WithDefaults(), tables}
	n := &description{Published: d, Loss: d.Scaling.Loss.Percent / 100, Growth: r.growths(), Choices: r.choices(), Splits: r.splits(), Attaching: r.attachings(), Around: r.arounds()}
	var err error
	n.Claims, err = r.claims(n)
	return n, err
}

// The paths that the text knows by name.
const (
	loopback = "loopback" // both ends in one container
	onBridge = "bridge"   // two containers on one bridge
	twoHosts = "vxlan"    // two containers, each on a host
	attach   = "attach"   // the clock holds the attaching
)

// onPath cuts a target on a path into the two.
func onPath(target string) (base, path string) {
	base, path, _ = strings.Cut(target, study.PathSign)
	return base, path
}

// reader finds a run's numbers.
type reader struct {
	analysis.Input
	tables []analysis.Table
}

// plain reports whether a cell is neither a twin of the control nor watched.
func plain(c study.Cell) bool { return !c.AA && c.Probe == "" }

// primary is the primary table of a cell; ok is false where there is none.
func (r reader) primary(c study.Cell) (t analysis.Table, ok bool) {
	i := slices.IndexFunc(r.tables, func(t analysis.Table) bool { return t.Primary && t.Group == c.Group })
	if i < 0 {
		return analysis.Table{}, false
	}
	return r.tables[i], true
}

// refused reports whether nothing may be claimed of a cell against one of another group, or
// of some row of its primary table.
func (r reader) refused(c study.Cell) bool {
	t, _ := r.primary(c)
	return t.Refused != "" || slices.ContainsFunc(t.Rows, func(row analysis.Row) bool {
		return row.Effect != nil && row.Effect.Verdict == analysis.NotComparable
	})
}

// sibling is another target's cell in the same group; an empty one for none.
func (r reader) sibling(c study.Cell, target string) study.Cell {
	i := slices.IndexFunc(r.Cells, func(o study.Cell) bool { return o.Target == target && o.Group == c.Group && plain(o) })
	if i < 0 {
		return study.Cell{}
	}
	return r.Cells[i]
}

// levels are one target's cells of one workload, which differ in a level alone.
type levels struct {
	target, workload string
	cells            []study.Cell
}

// byLevel groups cells by target and workload.
func (r reader) byLevel() []levels {
	var out []levels
	for _, c := range r.Cells {
		if !plain(c) || c.Limits.Network == nil {
			continue
		}
		i := slices.IndexFunc(out, func(s levels) bool { return s.target == c.Target && s.workload == c.Workload })
		if i < 0 {
			i = len(out)
			out = append(out, levels{target: c.Target, workload: c.Workload})
		}
		out[i].cells = append(out[i].cells, c)
	}
	return out
}

// containers are those on a cell's network, its two ends among them.
func containers(c study.Cell) int { return max(2, c.Limits.Network.Containers) }
