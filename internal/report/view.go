package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/go-units"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// view is a report before it has a format: the same words and digits go to the
// terminal, to Markdown and to the page.
type view struct {
	in       Input
	facts    []fact
	findings []string
	groups   []group
	ladders  []shownLadder
	leftOut  []fact
	failures []failed
	brief    Summary
}

// fact is a name with its value.
type fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// group is one comparison: what is in it differs only in the target.
type group struct {
	name      string
	primary   []shownTable
	secondary []shownTable
}

// shownTable is a table in its display unit, with rows parallel to the claim's.
type shownTable struct {
	claim          *analysis.Table
	quantity.Scale `json:"scale"`
	Title          string     `json:"title"` // "ready, ms, lower is better"
	Rows           []shownRow `json:"rows"`
}

// shownRow is one row as people read it.
type shownRow struct {
	claim   *analysis.Row
	Median  quantity.Shown `json:"median"`
	Ratio   quantity.Shown `json:"ratio"`
	Cold    string         `json:"cold"`
	Verdict string         `json:"verdict"` // a verdict, "control", "failed" or "no verdict"
	Effect  string         `json:"effect"`  // "cost", "gain", or "" where nothing was shown to differ; for colours
}

// shownLadder is a ladder in its display units.
type shownLadder struct {
	claim *analysis.Ladder
	Base  quantity.Shown `json:"base"`
	Steps []shownStep    `json:"steps"`
	Delta quantity.Scale `json:"delta"` // of the steps
	Total quantity.Scale `json:"total"` // of the levels
	Sum   string         `json:"sum"`   // that the steps make the whole, in words
	Log   bool           `json:"log"`   // the levels span so much that only a log axis shows all steps
}

// shownStep is one step of a ladder.
type shownStep struct {
	Delta quantity.Shown `json:"delta"` // with its sign
	Level string         `json:"level"` // the median after this step
}

func newView(in Input) view {
	v := view{in: in, facts: facts(in), leftOut: in.ofRuns(leftOut)}
	for _, s := range v.in.Sections {
		v.in.Claims.Warnings = slices.Concat(v.in.Claims.Warnings, analysis.Warnings(analysis.General, s.Warnings...))
	}
	for i := range in.Claims.Tables {
		v.add(showTable(&in.Claims.Tables[i]))
	}
	for i := range in.Claims.Ladders {
		v.ladders = append(v.ladders, showLadder(&in.Claims.Ladders[i]))
	}
	v.failures = in.failures()
	v.findings = findings(v)
	v.brief = v.summary()
	// The summary has a table of what differs between runs; here it is told in sentences.
	differ := lines(in.Claims.Surroundings, analysis.Surrounding.String)
	v.in.Claims.Warnings = append(analysis.Warnings(analysis.General, differ...), v.in.Claims.Warnings...)
	return v
}

// add puts a table into its group; groups keep the order of the claims.
func (v *view) add(t shownTable) {
	at := slices.IndexFunc(v.groups, func(g group) bool { return g.name == t.claim.Group })
	if at < 0 {
		v.groups = append(v.groups, group{name: t.claim.Group})
		at = len(v.groups) - 1
	}
	g := &v.groups[at]
	if t.claim.Primary {
		g.primary = append(g.primary, t)
		return
	}
	g.secondary = append(g.secondary, t)
}

func showTable(t *analysis.Table) shownTable {
	medians := make([]float64, 0, len(t.Rows))
	for _, r := range t.Rows {
		if r.Summary.N > 0 {
			medians = append(medians, r.Summary.Median)
		}
	}
	s := shownTable{claim: t, Scale: quantity.ScaleFor(t.Metric.Unit, medians)}
	s.Title = tableTitle(t.Metric, s.Unit)
	for i := range t.Rows {
		s.Rows = append(s.Rows, s.showRow(&t.Rows[i]))
	}
	return s
}

func tableTitle(m sample.Metric, unit string) string {
	title := m.Name
	if unit != "" {
		title += ", " + unit
	}
	if m.Better != "" {
		title += ", " + string(m.Better) + " is better"
	}
	return title
}

func (t shownTable) showRow(r *analysis.Row) shownRow {
	row := shownRow{claim: r, Median: quantity.Shown{Value: quantity.Missing}, Ratio: quantity.Shown{Value: quantity.Missing}}
	if r.Summary.N > 0 {
		row.Median = t.Show(r.Summary.Median, r.Summary.Interval)
	}
	if r.Cold != nil {
		v := *r.Cold / t.Factor
		row.Cold = quantity.Number(v, max(quantity.Decimals(v, math.NaN()), 0))
	}
	if r.Effect != nil {
		row.Ratio = t.showEffect(r.Effect)
		row.Effect = direction(t.claim.Metric.Better, r.Effect)
	}
	row.Verdict = verdictWord(r)
	return row
}

// showEffect is the ratio to the control, or where there is none (a control of
// zero) the difference in the table's unit, marked by a delta; without either it is missing.
func (t shownTable) showEffect(e *analysis.Effect) quantity.Shown {
	switch {
	case e.HasRatio():
		return quantity.Ratio(e.Ratio, e.Interval)
	case e.Difference == nil:
		return quantity.Shown{Value: quantity.Missing}
	}
	n := quantity.Signed(t.Show(e.Difference.Median, e.Difference.Interval))
	n.Value = "Δ" + n.Value
	return n
}

// times writes an effect in running text: "×1.85", or "Δ+12".
func (r shownRow) times() string {
	if strings.HasPrefix(r.Ratio.Value, "Δ") {
		return r.Ratio.Value
	}
	return "×" + r.Ratio.Value
}

// verdict is the row's verdict, "" where it has none or failed.
func (r shownRow) verdict() analysis.Verdict {
	if r.claim.Effect == nil || r.claim.Summary.N == 0 {
		return ""
	}
	return r.claim.Effect.Verdict
}

// verdictWord names what can be said of a row. Rows of metrics that are described,
// not judged, have no word.
func verdictWord(r *analysis.Row) string {
	switch {
	case r.Summary.N == 0 && r.Summary.Failed > 0:
		return "failed"
	case r.Control:
		return "control"
	case r.Effect == nil:
		return "no verdict"
	}
	return string(r.Effect.Verdict)
}

// direction says whether a shown difference costs or gains.
func direction(better sample.Better, e *analysis.Effect) string {
	switch {
	case !e.Verdict.Shown() || better == "":
		return ""
	case (better == sample.Lower) == rises(e):
		return "cost"
	}
	return "gain"
}

// rises reports whether an effect is an increase.
func rises(e *analysis.Effect) bool {
	if e.Difference != nil {
		return e.Difference.Median > 0
	}
	return e.Ratio > 1
}

// leftOut tells what a run did not measure and why, each reason once.
func leftOut(m store.Manifest) []fact {
	var out []fact
	more := map[string]int{} // by reason, beside the one that is named
	for _, name := range slices.Sorted(maps.Keys(m.LeftOut)) {
		why := m.LeftOut[name]
		if slices.ContainsFunc(out, func(f fact) bool { return f.Value == why }) {
			more[why]++
			continue
		}
		out = append(out, fact{name, why})
	}
	for i := range out {
		if n := more[out[i].Value]; n > 0 {
			out[i].Name += fmt.Sprintf(" and %d more", n)
		}
	}
	return out
}

// facts are the header of every report.
func facts(in Input) []fact {
	trials := fact{"trials", trials(in)}
	all := in.ofRuns(func(m store.Manifest) []fact {
		one := in
		one.Manifest = m
		return slices.Insert(runFacts(m), 2, fact{"plan", plan(one)})
	})
	if len(in.Others) > 0 {
		return append([]fact{trials}, all...)
	}
	return slices.Insert(all, 2, trials)
}

// runFacts are what one run is and where it was measured; the run and its command come first.
func runFacts(m store.Manifest) []fact {
	all := []fact{
		{"run", fmt.Sprintf("%s, tare %s, %s", m.ID, m.Tool, m.Created.UTC().Format("2006-01-02 15:04 UTC"))},
		{"command", strings.Join(m.Command, " ")},
		{"machine", machine(m.Host)},
		{"system", system(m.Host)},
		{"image", orMissing(m.Image)},
	}
	all = append(all, otherMachine(m)...)
	if m.Guest != nil && *m.Guest != (driver.Guest{}) {
		all = append(all, fact{"guests", "asked of virtual machines: " + m.Guest.String()})
	}
	return all
}

func trials(in Input) string {
	c := in.Claims
	s := fmt.Sprintf("%d of %d", c.Trials, c.Planned)
	if in.unfinished() && in.Live {
		s += " so far"
	}
	if c.Failures > 0 {
		s += fmt.Sprintf(", %d failed", c.Failures)
	}
	return s
}

// judgedTables counts the tables that give a verdict, each of which may be false.
func judgedTables(c analysis.Claims) (n int) {
	for _, t := range c.Tables {
		judged := func(r analysis.Row) bool {
			return !r.AA && r.Effect != nil && r.Effect.Verdict != "" && r.Effect.Verdict != analysis.NotComparable
		}
		if t.Primary && slices.ContainsFunc(t.Rows, judged) {
			n++
		}
	}
	return n
}

func plan(in Input) string {
	text := fmt.Sprintf("%s, seed %d, margin %s, alpha %s",
		blocks(in), in.Manifest.Seed, quantity.Percent(in.Claims.Margin), quantity.Percent(in.Claims.Alpha))
	if n := judgedTables(in.Claims); n > 1 {
		text += fmt.Sprintf("; chance alone gives a false verdict in at most %.2g of %d tables", in.Claims.Alpha*float64(n), n)
	}
	for _, l := range in.Manifest.Study.Environments {
		if len(l.Same) > 0 {
			text += fmt.Sprintf("; %s stands for %s, too, which come to the same here", l.Name, strings.Join(l.Same, ", "))
		}
	}
	return text
}

// blocks says how many there are and, where the run has a precision or a budget, which
// of the two ended it.
func blocks(in Input) string {
	st := in.Manifest.Study
	if in.End == nil {
		text := quantity.Count(st.Blocks, "block")
		if len(in.Others) > 0 && st.Precision+st.Budget.Seconds() > 0 {
			return "at most " + text // a comparison does not know where its runs ended
		}
		switch {
		case st.Precision > 0 && in.unfinished():
			text = fmt.Sprintf("at most %s, to be looked at after %s", text, numbers(st.Looks()))
		case st.Precision > 0:
			text += fmt.Sprintf(", looked at after %s, without reaching the precision of %s", numbers(st.Looks()), quantity.Percent(st.Precision))
		}
		return text
	}
	text := fmt.Sprintf("%s of at most %d", quantity.Count(in.End.Blocks, "block"), st.Blocks)
	switch in.End.Reason {
	case store.EndPrecision:
		text += fmt.Sprintf(": ended by the precision of %s", quantity.Percent(st.Precision))
	case store.EndBudget:
		text += fmt.Sprintf(": ended by the budget of %s", st.Budget)
		if st.Precision > 0 {
			text += fmt.Sprintf(" before the precision of %s", quantity.Percent(st.Precision))
		}
	}
	if in.End.Cell != "" {
		text += fmt.Sprintf(" (widest interval: %s, ±%s)", in.End.Cell, quantity.Percent(in.End.Widest))
	}
	return text
}

func numbers(all []int) string {
	texts := make([]string, len(all))
	for i, n := range all {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ", ")
}

// otherMachine are the facts of the machine that had the far ends of paths, and what
// differs between the two.
func otherMachine(m store.Manifest) []fact {
	if m.Peer == nil {
		return nil
	}
	other := m.Peer.Host
	differ := []string{}
	for _, s := range analysis.Surroundings(surrounding(m.Host), surrounding(other)) {
		differ = append(differ, fmt.Sprintf("%s (%s here, %s there)", s.What, s.A, s.B))
	}
	same := "they differ in nothing that tare reads"
	if len(differ) > 0 {
		same = "they differ in: " + strings.Join(differ, ", ")
	}
	return []fact{
		{"other machine", join([]string{other.Hostname, machine(other)})},
		{"its system", system(other)},
		{"both machines", join([]string{join([]string{m.Peer.Here, m.Peer.There}), same})},
	}
}

// surrounding is what of a machine can make a difference.
func surrounding(h hostinfo.Host) analysis.Provenance {
	return analysis.Provenance{
		Kernel: strings.TrimSpace(h.Kernel + " " + h.KernelBuild), CPU: h.CPU, CPUs: strconv.Itoa(h.CPUs), Memory: units.BytesSize(float64(h.Memory)),
		Governor: h.Governor, Clocksource: h.Clocksource, TCP: h.TCPCongestion, Mitigations: h.Mitigations,
	}
}

func machine(h hostinfo.Host) string {
	parts := []string{h.CPU, quantity.Count(h.CPUs, "CPU")}
	if h.Cores > 0 {
		parts = append(parts, quantity.Count(h.Cores, "core"))
	}
	parts = append(parts, quantity.Clock(h.ClockGHz, h.ClockSource))
	parts = append(parts, units.CustomSize("%.4g %s", float64(h.Memory), 1024, []string{"B", "KiB", "MiB", "GiB", "TiB"}), h.Arch, "virtualization "+orMissing(h.Virtualization))
	if h.Emulated != "" {
		parts = append(parts, "emulated ("+h.Emulated+"): no time here is a machine's performance")
	}
	return join(parts)
}

func system(h hostinfo.Host) string {
	governor := "no cpufreq"
	if h.Governor != "" {
		governor = "governor " + h.Governor
	}
	if h.SchedExt != "" {
		governor += ", scheduler " + h.SchedExt + " (sched_ext)"
	}
	tcp := ""
	if h.TCPCongestion != "" {
		tcp = "TCP " + h.TCPCongestion
	}
	as := "as a user"
	if h.Root {
		as = "as root"
	}
	return join([]string{h.OS, "Linux " + h.Kernel, "cgroup " + h.Cgroup, governor, "clock " + h.Clocksource, tcp, as})
}

func join(parts []string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

func orMissing(s string) string {
	if s == "" {
		return quantity.Missing
	}
	return s
}

// isLadder reports whether the study asks for the ladder's view.
func (v view) isLadder() bool { return v.in.Manifest.Study.View == study.ViewLadder }
