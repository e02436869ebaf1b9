package report

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
)

// Summary is what a reader should know of a run, or of runs compared, in a minute.
// Every format begins with it; the text format is the summary alone unless all
// tables are asked for.
type Summary struct {
	Title     string         `json:"title"`
	About     []string       `json:"about"`               // the study, how much was measured, the machine: a few words each
	Alerts    []string       `json:"alerts,omitempty"`    // what limits every number of the run
	Tables    []SummaryTable `json:"tables,omitempty"`    // costs, layers or changes
	NoVerdict []Lack         `json:"noVerdict,omitempty"` // targets and cells of which nothing is claimed
	Says      []string       `json:"says,omitempty"`      // one sentence or two each, the most important first
	Certainty []string       `json:"certainty,omitempty"` // how sure all of it is
	Next      []Action       `json:"next"`
}

// SummaryTable is a table with a verdict in its cells. Every column has as many cells
// as there are Rows.
type SummaryTable struct {
	Title   string          `json:"title"`
	First   string          `json:"first"` // head of the column of Rows
	Rows    []string        `json:"rows"`
	Columns []SummaryColumn `json:"columns"`
	Note    string          `json:"note,omitempty"` // how to read the numbers
}

// SummaryColumn is one column.
type SummaryColumn struct {
	Over  string        `json:"over,omitempty"` // a heading that neighbouring columns share
	Head  string        `json:"head"`
	Words bool          `json:"words,omitempty"` // the cells are words: aligned left
	Cells []SummaryCell `json:"cells"`
	// weight is how much is missed without the column: where not all fit, the
	// lightest are dropped.
	weight float64
}

// SummaryCell is a number in words and digits with its verdict.
type SummaryCell struct {
	Text    string `json:"text"`
	Verdict string `json:"verdict,omitempty"` // as in the price list; empty for numbers that are described
	Effect  string `json:"effect,omitempty"`  // "cost", "gain" or ""
}

// Lack is something of which nothing is claimed.
type Lack struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Action is what a reader may want to do next.
type Action struct {
	Label   string `json:"label"`
	Command string `json:"command"` // for a shell, or the name of a file
}

func (v view) summary() Summary {
	s := Summary{Title: v.in.Manifest.Study.Title, About: v.about(), Alerts: v.alerts()}
	if len(v.in.Others) > 0 {
		v.summarizeChanges(&s)
	} else {
		s.Tables, s.NoVerdict, s.Says = v.summaryTables(), v.lacks(), v.says()
		s.Certainty = v.certainty()
	}
	s.Next = v.next()
	return s
}

// about names the run in a few words.
func (v view) about() []string {
	m, c := v.in.Manifest, v.in.Claims
	blocks := m.Study.Blocks
	if v.in.End != nil {
		blocks = v.in.End.Blocks
	}
	failed := fmt.Sprintf(", %d failed", c.Failures)
	all := []string{"tare " + m.Study.ID}
	if len(v.in.Others) > 0 {
		labels := v.in.labels()
		for i, m := range v.in.runs() {
			all = append(all, labels[i]+" is "+m.ID)
		}
		return append(all, quantity.Count(c.Trials, "trial")+failed)
	}
	return append(all, quantity.Count(blocks, "block"), quantity.Count(c.Trials, "trial")+failed, v.shortMachine())
}

func (v view) shortMachine() string {
	h := v.in.Manifest.Host
	kernel := ""
	if h.Kernel != "" {
		release, _, _ := strings.Cut(h.Kernel, "-")
		kernel = "Linux " + release
	}
	machine := join([]string{h.CPU, quantity.Count(h.CPUs, "CPU"), kernel})
	if h.Virtualization != "" && h.Virtualization != "none" {
		machine += " (" + h.Virtualization + " guest)"
	}
	if !h.Root {
		machine += ", as a user"
	}
	return machine
}

// alerts are the warnings that concern every number.
func (v view) alerts() []string {
	var out []string
	m := v.in.Manifest
	if why := analysis.EmulatedRun(m.Host.Emulated); why != "" {
		out = append(out, "No verdict on anything. "+why)
	}
	out = append(out, incomplete(v.in)...)
	for _, o := range v.in.Others {
		if o.Host.Root != m.Host.Root {
			by := map[bool]string{true: "as root", false: "as a user"}
			out = append(out, fmt.Sprintf("%s was measured %s and %s %s: their starts are made in other ways. Measure both as the same user.",
				m.ID, by[m.Host.Root], o.ID, by[o.Host.Root]))
		}
	}
	return out
}

// summaryTables are those of experiments that stand in place of the price lists, else
// the ladder's or the costs.
func (v view) summaryTables() []SummaryTable {
	if s := v.alone(); s != nil {
		return experimentTables(*s)
	}
	if v.isLadder() && len(v.ladders) > 0 {
		return []SummaryTable{v.layers()}
	}
	t := v.costs()
	if len(t.Rows) < 2 { // nothing is compared
		for _, s := range v.in.Sections {
			if tables := experimentTables(s); len(tables) > 0 {
				return tables
			}
		}
	}
	if len(t.Columns) == 0 {
		return nil
	}
	return []SummaryTable{t}
}

// experimentTables is the first table of numbers of an experiment.
func experimentTables(s finding.Section) []SummaryTable {
	at := slices.IndexFunc(s.Tables, func(t finding.Table) bool { return !t.Words && len(t.Head) > 1 && len(t.Rows) > 0 })
	if at < 0 {
		return nil
	}
	t := s.Tables[at]
	out := SummaryTable{Title: t.Title, First: t.Head[0], Rows: lines(t.Rows, func(r []string) string { return r[0] })}
	for i, head := range t.Head[1:] {
		cells := lines(t.Rows, func(r []string) SummaryCell { return SummaryCell{Text: r[i+1]} })
		out.Columns = append(out.Columns, SummaryColumn{Head: head, Cells: cells, weight: -float64(i)})
	}
	return []SummaryTable{out}
}

// lackList are things of which nothing is claimed, or cells with failures, each reason once.
type lackList struct {
	all   []Lack
	names [][]string // of all
	keys  []string   // that tell one reason from another
}

func (l *lackList) add(what, why, key string) {
	at := slices.Index(l.keys, key)
	if at < 0 {
		at = len(l.keys)
		l.all, l.names, l.keys = append(l.all, Lack{Why: why}), append(l.names, nil), append(l.keys, key)
	}
	if !slices.Contains(l.names[at], what) {
		l.names[at] = append(l.names[at], what)
	}
}

// named are the reasons with their things.
func (l *lackList) named() []Lack {
	for i := range l.all {
		l.all[i].What = several(l.names[i])
	}
	return l.all
}

// digits are what the same failure's message may differ in from cell to cell: ids.
var digits = regexp.MustCompile(`[0-9.]+`)

// addFailure adds a cell of which trials failed, with those of which as many failed alike.
func (l *lackList) addFailure(f failed) {
	count, message := fmt.Sprintf("%d of %d trials failed", f.Failed, f.Of), ""
	if f.Failure != nil {
		message = ": " + shortReason(f.Failure)
	}
	l.add(f.name(), count+message, count+digits.ReplaceAllString(message, ""))
}

// shortReason is what a payload that ended with an exit code said last, which is why it
// did. Of any other failure that alone would hide the reason: a payload that was killed
// at its timeout has often warned of something before.
func shortReason(f *sample.Failure) string {
	if last := lastLine(f.Stderr); last != "" && f.ExitCode != nil {
		return last
	}
	return reason(f)
}

// someFailed are the cells that have samples and failed trials, in words.
func (v view) someFailed() []string {
	var found lackList
	for _, f := range v.failures {
		if !f.all() {
			found.addFailure(f)
		}
	}
	return lines(found.named(), func(l Lack) string { return ended(l.What + ": " + l.Why) })
}

// lost are the cells that have failed trials alone, those first that work in another run.
func (v view) lost() []Lack {
	var out lackList
	lostIn := map[string]int{} // by cell, of how many runs
	for _, f := range v.failures {
		if f.all() {
			lostIn[f.Cell]++
		}
	}
	for _, everywhere := range []bool{false, true} {
		for _, f := range v.failures {
			if f.all() && (lostIn[f.Cell] == len(v.in.runs())) == everywhere {
				out.addFailure(f)
			}
		}
	}
	return out.named()
}

// lacks are the targets and cells of which nothing is claimed.
func (v view) lacks() []Lack {
	var out lackList
	for _, g := range v.groups {
		for _, t := range g.primary {
			for _, r := range refusedRows(t) {
				out.add(r.what, r.why, r.why)
			}
		}
	}
	for _, f := range v.leftOut {
		out.add(f.Name, withoutCommands(f.Value), f.Value)
	}
	return append(v.lost(), out.named()...)
}

// wholeReason is the length up to which a summary has the whole reason for a target's absence.
const wholeReason = 160

// withoutCommands leaves the commands out that would bring what a target lacks: a summary
// would cut them off. tare check has them, and so have the other reports.
func withoutCommands(why string) string {
	what, _, more := strings.Cut(why, " (")
	if !more || !strings.HasSuffix(why, ")") || len(why) <= wholeReason {
		return why
	}
	return what + " (tare check says how)"
}

// severalNames is how many things a list names before it counts the others.
const severalNames = 3

func several(names []string) string {
	if len(names) > severalNames {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:severalNames-1], ", "), len(names)-severalNames+1)
	}
	return enumerate(names)
}

type refusal struct{ what, why string }

// refusedRows are why rows of a table are not comparable: the table as a whole, or
// single rows.
func refusedRows(t shownTable) []refusal {
	otherwise := func(r shownRow) bool { // it has a verdict, or another reason for none
		e := r.claim.Effect
		return e != nil && !r.claim.AA && e.Why != t.claim.Refused
	}
	if t.claim.Refused != "" && !slices.ContainsFunc(t.Rows, otherwise) {
		return []refusal{{t.claim.Group, t.claim.Refused}}
	}
	var out []refusal
	for _, r := range t.Rows {
		if r.verdict() == analysis.NotComparable {
			out = append(out, refusal{r.claim.Label + " in " + t.claim.Group, r.claim.Effect.Why})
		}
	}
	return out
}

// certainty says how well the control agreed with itself, what disturbed the run, and
// what would settle what is open.
func (v view) certainty() []string {
	var out []string
	if text := v.noise(); text != "" {
		out = append(out, text)
	}
	if text := v.settle().text; text != "" {
		out = append(out, text)
	}
	return slices.Concat(out, v.someFailed(), v.warnings())
}

// warnings are those that the summary does not show elsewhere: with what has no verdict,
// the alerts, or the noise.
func (v view) warnings() []string {
	var out []string
	for _, w := range v.in.Claims.Warnings {
		if w.Kind == analysis.General {
			out = append(out, ended(w.Text))
		}
	}
	return out
}

// ended is a warning with its full stop.
func ended(s string) string { return strings.TrimRight(s, ". ") + "." }

// noise is how far the control differs from itself: in starts and other times, and in
// the rest.
func (v view) noise() string {
	var times, rates []float64
	for _, g := range v.groups {
		for _, t := range g.primary {
			if t.claim.Noise <= 0 {
				continue
			}
			if isTime(t) {
				times = append(times, t.claim.Noise)
			} else {
				rates = append(rates, t.claim.Noise)
			}
		}
	}
	if len(times)+len(rates) == 0 {
		return strings.Join(noiseFinding(v), " ")
	}
	var parts []string
	for _, p := range []struct {
		noise []float64
		word  string
	}{{times, "times"}, {rates, "speeds"}} {
		if len(p.noise) > 0 {
			parts = append(parts, span(p.noise)+" in "+p.word)
		}
	}
	most := slices.Max(append(slices.Clone(times), rates...))
	return fmt.Sprintf("%s: the control differs from itself by up to %s.", machineWord(most), strings.Join(parts, " and "))
}

// The noise from which a machine is called noisy, and below which quiet: conventions.
const (
	noisyFrom  = 0.10
	quietBelow = 0.02
)

func machineWord(noise float64) string {
	switch {
	case noise >= noisyFrom:
		return "Noisy machine"
	case noise < quietBelow:
		return "Quiet machine"
	}
	return "Usual noise"
}

// span is the range of noise, "3 %" or "3–12 %".
func span(all []float64) string {
	low, high := twoDigits(100*slices.Min(all)), twoDigits(100*slices.Max(all))
	if low == high {
		return high + " %"
	}
	return low + "–" + high + " %"
}

// twoDigits prints two significant digits, without a sign for what rounds to zero.
func twoDigits(v float64) string {
	s := quantity.Number(v, 1-quantity.Decade(v))
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return strings.ReplaceAll(s, "-", "−")
}
