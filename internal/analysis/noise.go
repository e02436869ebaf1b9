package analysis

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// When the machine was too noisy for a claim. The limits are conventions,
// printed with each refusal.
const (
	controlFailures = 0.10 // share of the control's trials that may fail
	driftRefused    = 0.25 // change of the control over the run, as a ratio-1, from which nothing is claimed
	driftWarned     = 0.05 // from which it is told
	driftP          = 0.01 // p-value that makes a change a trend
	DisturbedShare  = 0.25 // share of a group's trials that may carry a warning of noise
	stealRefused    = 0.10 // stolen CPU time per wall time from which nothing is claimed
	stealWarned     = 0.02
	stealWall       = 1.0  // seconds of trials below which steal, counted in steps of 10 ms, says nothing: then the whole run's does
	pressureRefused = 0.50 // time under pressure, above that of the quietest quarter, as a share of wall time
	pressureWarned  = 0.20
	pressureWall    = 10.0 // seconds a quarter: the kernel brings its totals up to date every 2 s only
)

// noiseMetrics measure the machine, not a cell: a drift of one says nothing about the control.
var noiseMetrics = []string{sample.Steal, sample.CPUPressure, sample.IOPressure}

// controlFailed says why a group has no control to compare with.
func (in Input) controlFailed(g group) string {
	if g.control < 0 {
		return ""
	}
	cell := g.base()
	c := in.Data.cells[cell.ID]
	if c == nil || float64(c.failed) <= controlFailures*float64(c.trials) {
		return ""
	}
	return fmt.Sprintf("The control %s failed in %d of its %d trials, more than %s: %s",
		cell.Target, c.failed, c.trials, percent(controlFailures), sentence(c.failure.Message))
}

func sentence(text string) string { return strings.TrimRight(text, ". \n") + "." }

// warned judges the records' own warnings of noise.
// A storm of copies presses the machine by itself, so only single copies count.
func (in Input) warned(g group) disturbance {
	trials, noisy, example := 0, 0, ""
	for _, cell := range g.cells {
		c := in.Data.cells[cell.ID]
		if c == nil || cell.Copies > 1 {
			continue
		}
		trials += c.trials
		most := 0 // a trial may carry several kinds: the commonest is a lower bound
		for _, n := range c.notes {
			if n.first.Disturbed() && n.count > most {
				most, example = n.count, n.first.String()
			}
		}
		noisy += most
	}
	share := float64(noisy) / float64(trials)
	if !(share > DisturbedShare) {
		return disturbance{}
	}
	return refusing(fmt.Sprintf("%d of %d trials were disturbed, more than %s (first: %s)", noisy, trials, percent(DisturbedShare), strings.TrimRight(example, ".")),
		"Measure again when the machine is quiet.", share)
}

// steal is the CPU time that the hypervisor took during trials of so many
// seconds in all.
type steal struct{ wall, stolen float64 }

func (in Input) steal(g group) steal {
	wall, stolen := in.sums(g, sample.Steal, 0, math.MaxInt32)
	return steal{wall, stolen}
}

// stolen judges the CPU time that the hypervisor took during a group's trials.
// Where these are too short to tell, the trials of the whole run do, which lie
// between them. In rounds stolen time is a warning alone: slices that are compared lie
// milliseconds apart, so each is as likely to lose time as the other.
func (in Input) stolen(g group, run steal) disturbance {
	s, where, of := in.steal(g), g.name+": ", "trials"
	if s.wall < stealWall {
		s, where, of = run, "", "all trials of the run"
	}
	share := s.stolen / s.wall
	what := fmt.Sprintf("the hypervisor stole %.3g s of CPU time in %.3g s of %s", s.stolen, s.wall, of)
	switch {
	case s.wall < stealWall || share < stealWarned:
		return disturbance{}
	case share < stealRefused || in.inRounds(g):
		return disturbance{text: where + what + "; intervals are wider for it", size: share}
	}
	return refusing(what+", more than "+percent(stealRefused), "Measure again when its other guests are quiet.", share)
}

// inRounds says whether a group was measured in rounds.
func (in Input) inRounds(g group) bool {
	return slices.ContainsFunc(g.cells, func(cell study.Cell) bool {
		c := in.Data.cells[cell.ID]
		return c != nil && len(c.rounds) > 0
	})
}

// pressed judges the time in which tasks waited for a CPU or for I/O. What the
// payload waits for by itself it does in every quarter of the run, so only the
// excess over the quietest one is noise; noise that is always there cancels in
// the ratios.
func (in Input) pressed(g group, metric string) disturbance {
	least, wall, pressure := math.Inf(1), 0.0, 0.0
	for quarter := range 4 {
		w, p := in.sums(g, metric, quarter*in.Blocks/4, (quarter+1)*in.Blocks/4)
		if w < pressureWall {
			return disturbance{}
		}
		least, wall, pressure = min(least, p/w), wall+w, pressure+p
	}
	excess := pressure/wall - least
	what := fmt.Sprintf("%s was present in %s of the trials' time, but only in %s of it in the quietest quarter of the run",
		strings.ReplaceAll(metric, "-", " "), percent(pressure/wall), percent(least))
	switch {
	case excess < pressureWarned:
		return disturbance{}
	case excess < pressureRefused:
		return disturbance{text: g.name + ": " + what + "; something else was running", size: excess}
	}
	return refusing(what, "Measure again when nothing else runs.", excess)
}

// sums adds up the wall time of a group's single-copy trials in some blocks,
// and a metric of the same trials.
func (in Input) sums(g group, metric string, from, to int) (wall, sum float64) {
	for _, cell := range g.cells {
		c := in.Data.cells[cell.ID]
		if cell.Copies > 1 {
			continue
		}
		pairs(c.series(sample.Wall), c.series(metric), func(block int32, w, v float64) {
			if int(block) >= from && int(block) < to {
				wall, sum = wall+w, sum+v
			}
		})
	}
	return wall, sum
}

// disturbances are what was seen of the machine during a group's trials.
func (in Input) disturbances(g group, run steal) []disturbance {
	all := []disturbance{in.warned(g)}
	for _, m := range noiseMetrics {
		d := in.stolen(g, run)
		if m != sample.Steal {
			d = in.pressed(g, m)
		}
		d.kind = m
		all = append(all, d)
	}
	return slices.DeleteFunc(all, func(d disturbance) bool { return d.text == "" })
}

// disturbance is what was seen of the machine during a group's trials, its kind (a metric,
// or "" for the records' own warnings), and the part of the trials' time that it took. With a
// refusal it is so large that the twin alone can tell whether the control is still itself.
type disturbance struct {
	kind, text, refusal string
	size                float64
}

// refusing is a disturbance that refuses where no twin speaks for the control.
func refusing(what, remedy string, size float64) disturbance {
	return disturbance{text: what, refusal: capital(what) + ". " + remedy, size: size}
}

// steadyTwin ends the warning of a disturbance in spite of which a table has verdicts.
const steadyTwin = "; the control agrees with its twin, so costs against it stand, and nothing else does"

// disturbed is the first of a group's disturbances that refuses, "" for none.
func (g group) disturbed() string {
	for _, d := range g.disturbances {
		if d.refusal != "" {
			return d.refusal
		}
	}
	return ""
}

// told are a group's disturbances with what they mean for its verdicts. The one that refuses
// all of them is told with the refusal, and a group that compares nothing has none to refuse.
func (g group) told(v groupVerdicts) []disturbance {
	var out []disturbance
	for _, d := range g.disturbances {
		refused := v.refused()
		switch {
		case d.refusal == "":
		case d.refusal == refused || len(v.effects) == 0 && v.twin == nil:
			continue
		default:
			d.text = g.name + ": " + d.text
			if refused == "" && len(v.effects) > 0 {
				d.text += steadyTwin
			}
		}
		out = append(out, d)
	}
	return out
}

// worst are the warnings of groups, one of each kind: the worst.
func worst(all []disturbance) []string {
	var out []string
	for _, kind := range append([]string{""}, noiseMetrics...) {
		var most disturbance
		n := 0
		for _, d := range all {
			if d.kind != kind {
				continue
			}
			if n++; n == 1 || d.size > most.size {
				most = d
			}
		}
		switch {
		case n > 1:
			out = append(out, fmt.Sprintf("%s (the worst of %d groups that were disturbed so)", most.text, n))
		case n == 1:
			out = append(out, most.text)
		}
	}
	return out
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// drift looks for a trend of the control over the run: Spearman's rank
// correlation with time for its existence, the last third's median over the
// first third's for its size. Ratios inside a block cancel a drift that all
// cells share, so a small one is only told, and so is any in rounds, whose slices
// are milliseconds apart.
func (in Input) drift(j job, control Series) disturbance {
	n := len(control.values)
	if n < stats.BootstrapFrom {
		return disturbance{}
	}
	first, last := stats.Median(stats.Sorted(control.values[:n/3])), stats.Median(stats.Sorted(control.values[n-n/3:]))
	if first <= 0 || last <= 0 {
		return disturbance{}
	}
	ratio := last / first
	size := math.Expm1(math.Abs(math.Log(ratio)))
	if size < max(driftWarned, in.Margin) || stats.Trend(control.values) > driftP {
		return disturbance{}
	}
	what := fmt.Sprintf("the control's %s drifted by %s from the first third of the run to the last", j.metric.Name, effectSize(ratio))
	out := disturbance{text: j.group.name + ": " + what + "; ratios inside a block cancel what all cells share, medians and differences do not", size: size}
	if size >= driftRefused && !in.Data.cells[j.group.base().ID].inRounds(j.metric.Name) {
		out.refusal = capital(what) + fmt.Sprintf(", a factor of %.2f; from %.2f on nothing is compared. Measure again when the machine is steady.", 1+size, 1+driftRefused)
	}
	return out
}

// runWarnings are those that concern the run as a whole.
func (in Input) runWarnings(claims Claims, groups []group) []Warning {
	var out []Warning
	switch {
	case in.Planned <= claims.Trials:
	case in.Live:
		out = append(out, Warning{Unfinished, fmt.Sprintf("being measured: %d of %d planned trials so far", claims.Trials, in.Planned)})
	default:
		out = append(out, Warning{Unfinished, fmt.Sprintf("the run is incomplete: %d of %d planned trials; finish it with `tare resume`", claims.Trials, in.Planned)})
	}
	most := 0
	for _, t := range claims.Tables {
		rows := 0
		for _, r := range t.Rows {
			if r.Effect != nil && !r.AA {
				rows++
			}
		}
		most = max(most, rows)
	}
	twin := slices.ContainsFunc(groups, func(g group) bool { return g.aa >= 0 })
	if err := CheckPlan(in.Blocks, in.Alpha, most, twin); err != nil && most > 0 && in.Blocks > 0 {
		out = append(out, Warning{General, err.Error()})
	}
	verdicts := verdictsOf(claims.Tables)
	var told []disturbance
	for _, g := range groups {
		if i := slices.IndexFunc(verdicts, func(v groupVerdicts) bool { return v.group == g.name }); i >= 0 {
			told = append(told, g.told(verdicts[i])...)
		}
	}
	return slices.Concat(out, Warnings(General, in.mixed()...), refusals(verdicts, in.Emulated), Warnings(General, worst(told)...),
		Warnings(NoTwin, twinless(groups)...), Warnings(General, in.noteWarnings()...))
}

// mixed warns of a run that has guests on the CPU and emulated ones.
func (in Input) mixed() []string {
	by := map[string][]string{}
	for _, c := range in.Cells {
		if accel := in.Accels[c.Target]; accel != "" && !slices.Contains(by[accel], c.Target) {
			by[accel] = append(by[accel], c.Target)
		}
	}
	if len(by) < 2 {
		return nil
	}
	return []string{fmt.Sprintf("%s ran under KVM and %s under TCG, an emulated CPU: set neither against the other; a cell is not compared with a control of the other kind",
		strings.Join(by["kvm"], ", "), strings.Join(by["tcg"], ", "))}
}

// mostRefusals is how many groups' refusals are told one by one.
const mostRefusals = 3

// groupVerdicts is a group with the effects of its rows.
type groupVerdicts struct {
	group   string
	effects []*Effect // of targets
	twin    *Effect   // of the control's A/A twin, nil where there is none
}

func (g *groupVerdicts) add(e *Effect, twin bool) {
	switch {
	case e == nil:
	case twin:
		g.twin = e
	default:
		g.effects = append(g.effects, e)
	}
}

// refused is why a group has no verdict at all, "" where it has one.
func (g groupVerdicts) refused() string {
	all := g.effects
	if len(all) == 0 && g.twin != nil {
		all = []*Effect{g.twin}
	}
	if len(all) == 0 || slices.ContainsFunc(all, func(e *Effect) bool { return e.Verdict != NotComparable }) {
		return ""
	}
	return all[0].Why
}

// verdictsOf are the groups of a run, by their primary metrics.
func verdictsOf(tables []Table) []groupVerdicts {
	var out []groupVerdicts
	for _, t := range tables {
		if !t.Primary {
			continue
		}
		one := groupVerdicts{group: t.Group}
		for _, r := range t.Rows {
			one.add(r.Effect, r.AA)
		}
		out = append(out, one)
	}
	return out
}

// refusals tell why groups' verdicts are refused: on an emulated CPU all are.
func refusals(groups []groupVerdicts, emulated string) []Warning {
	if emulated != "" {
		return Warnings(NoVerdict, "no verdict on anything. "+EmulatedRun(emulated))
	}
	var out []string
	more := 0
	for _, g := range groups {
		why := g.refused()
		switch {
		case why == "":
		case len(out) < mostRefusals:
			out = append(out, fmt.Sprintf("%s: no verdict. %s", g.group, why))
		default:
			more++
		}
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("%d more groups have no verdict for such reasons", more))
	}
	return Warnings(NoVerdict, out...)
}

// twinRemedy undoes both ways of leaving the twin out.
const twinRemedy = "set `aa: true` in the study, and leave out `--no-aa`"

// twinless warns of controls without a twin: by group, or once where no group
// has one. Cells that a probe watches are not compared, and never have twins.
func twinless(groups []group) []string {
	var out []string
	twins := 0
	for _, g := range groups {
		switch {
		case g.aa >= 0:
			twins++
		case g.control >= 0 && len(g.cells) > 1 && g.cells[0].Probe == "":
			out = append(out, g.name+": the control has no A/A twin, so the noise floor is not known; "+twinRemedy)
		}
	}
	if twins == 0 && len(out) > 1 {
		return []string{fmt.Sprintf("none of %d controls has an A/A twin, so the noise floor is not known; %s", len(out), twinRemedy)}
	}
	return out
}

// noteWarnings sums up the records' own warnings, by kind, over the cells.
func (in Input) noteWarnings() []string {
	var all notes
	bad := 0
	for _, cell := range in.Cells {
		c := in.Data.cells[cell.ID]
		if c == nil {
			continue
		}
		bad += c.bad
		for _, n := range c.notes {
			all.merge(n)
		}
	}
	var out []string
	for _, n := range all {
		out = append(out, fmt.Sprintf("%s (%d of %d trials warn of this)", n.first, n.count, in.Data.trials))
	}
	if bad > 0 {
		out = append(out, fmt.Sprintf("%d values were not finite and are left out: the probe or the workload's parser that gave them is at fault", bad))
	}
	return out
}
