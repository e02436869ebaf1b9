// Package finding holds what an experiment says of a run, in a form that every
// report format can show: sections of sentences, tables, figures and claims. It is
// the only thing between an experiment and a report, and knows neither.
package finding

import "slices"

// Section is what an experiment says of a run beyond the tables that every run has.
type Section struct {
	ID       string   `json:"id"`       // the experiment's, also the anchor in the page
	Title    string   `json:"title"`    // "Published next to this machine"
	Headline []string `json:"headline"` // the findings in a few sentences; the page begins with them
	Findings []string `json:"findings"` // all of them; other formats begin with them
	Figures  []Figure `json:"figures"`  // for the page
	Tables   []Table  `json:"tables"`
	Claims   []Claim  `json:"claims,omitempty"` // published claims, each judged
	Note     string   `json:"note"`             // what the numbers mean and where the published ones are from
	// Alone: the section stands in place of the price lists in text and Markdown,
	// and in place of their sentences among the findings: for studies with dozens of
	// groups. The page folds the price lists.
	Alone bool `json:"alone,omitempty"`
	// TableFirst: the first table is what the section is for. The page shows it
	// before the figures.
	TableFirst bool `json:"tableFirst,omitempty"`
	// Warnings join those of the run: what limits the section, and what to do.
	Warnings []string `json:"-"`
	// Data are the section's numbers in base units, for programs: a type of the
	// experiment's that encoding/json can write. Only the JSON format has it.
	Data any `json:"data,omitempty"`
}

// Table is a table that is ready to be shown: every row has as many cells as Head.
// A row whose first cell begins with "·" is a published one, shown paler.
type Table struct {
	Title string     `json:"title"`
	Head  []string   `json:"head"`
	Rows  [][]string `json:"rows"`
	Words bool       `json:"words,omitempty"` // the cells are words, not numbers: they are aligned left
}

// WithoutEmpty is the table without the columns whose cells are all empty or one of
// the given marks of a missing number. The first column always stays.
func (t Table) WithoutEmpty(missing ...string) Table {
	var kept []int
	for i := range t.Head {
		full := func(r []string) bool { return r[i] != "" && !slices.Contains(missing, r[i]) }
		if i == 0 || slices.ContainsFunc(t.Rows, full) {
			kept = append(kept, i)
		}
	}
	pick := func(cells []string) []string {
		out := make([]string, len(kept))
		for to, from := range kept {
			out[to] = cells[from]
		}
		return out
	}
	t.Head = pick(t.Head)
	rows := make([][]string, len(t.Rows))
	for i, r := range t.Rows {
		rows[i] = pick(r)
	}
	t.Rows = rows
	return t
}
