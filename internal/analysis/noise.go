package analysis

import (
	"fmt"
	"math"
	"sort"
	"strings"
)

// When the machine was too noisy for a claim. The limits are conventions,
// printed with each refusal.
const (
	controlFailures = 0.10 // share of the control's trials that may fail
	driftRefused    = 0.25 // change of the control over the run, as a ratio-1, from which nothing is claimed
	driftWarned     = 0.05 // from which it is told
	driftP          = 0.01 // p-value that makes a change a trend
	disturbedShare  = 0.25 // share of a group's trials that may carry a warning of noise
)

// noiseKinds begin the warnings of a record that say that the machine was
// disturbed from outside.
var noiseKinds = []string{"steal", "psi", "pressure", "throttl"}

func (k note) isNoise() bool {
	kind := strings.ToLower(k.kind)
	for _, prefix := range noiseKinds {
		if strings.HasPrefix(kind, prefix) {
			return true
		}
	}
	return false
}

// controlFailed says why a group has no control to compare with.
func (in Input) controlFailed(g group) string {
	if g.control < 0 {
		return ""
	}
	cell := g.cells[g.control]
	c := in.Data.cells[cell.ID]
	if c == nil || float64(c.failed) <= controlFailures*float64(c.trials) {
		return ""
	}
	return fmt.Sprintf("The control %s failed in %d of its %d trials, more than %s: %s",
		cell.Target, c.failed, c.trials, percent(controlFailures), sentence(c.failure.Message))
}

func sentence(text string) string { return strings.TrimRight(text, ". \n") + "." }

// disturbed refuses a group when records warn of noise in too many trials.
// A storm of copies presses the machine by itself, so only single copies count.
func (in Input) disturbed(g group) string {
	trials, noisy, example := 0, 0, ""
	for _, cell := range g.cells {
		c := in.Data.cells[cell.ID]
		if c == nil || cell.Copies > 1 {
			continue
		}
		trials += c.trials
		most := 0 // a trial may carry several kinds: the commonest is a lower bound
		for _, n := range c.notes {
			if n.isNoise() && n.count > most {
				most, example = n.count, n.first
			}
		}
		noisy += most
	}
	if float64(noisy) <= disturbedShare*float64(trials) {
		return ""
	}
	return fmt.Sprintf("%d of %d trials were disturbed, more than %s (first: %s). Measure again when the machine is quiet.",
		noisy, trials, percent(disturbedShare), strings.TrimRight(example, "."))
}

type drifted struct{ refusal, warning string }

// drift looks for a trend of the control over the run: Spearman's rank
// correlation with time for its existence, the last third's median over the
// first third's for its size. Ratios inside a block cancel a drift that all
// cells share, so a small one is only told.
func (in Input) drift(j job, control blockSeries) drifted {
	n := len(control.values)
	if n < bootstrapFrom {
		return drifted{}
	}
	first, last := median(sorted(control.values[:n/3])), median(sorted(control.values[n-n/3:]))
	if first <= 0 || last <= 0 {
		return drifted{}
	}
	ratio := last / first
	size := math.Expm1(math.Abs(math.Log(ratio)))
	if size < max(driftWarned, in.Margin) || trend(control.values) > driftP {
		return drifted{}
	}
	what := fmt.Sprintf("the control's %s drifted by %s from the first third of the run to the last", j.metric.Name, effectSize(ratio))
	if size >= driftRefused {
		return drifted{refusal: strings.ToUpper(what[:1]) + what[1:] + fmt.Sprintf(", more than %s. Measure again when the machine is steady.", percent(driftRefused))}
	}
	return drifted{warning: j.group.name + ": " + what + "; ratios inside a block cancel what all cells share, medians and differences do not"}
}

// trend is the p-value, two-sided, of Spearman's rank correlation between
// values and their order, by its normal limit z = rho sqrt(n-1).
func trend(values []float64) float64 {
	n := len(values)
	rho := pearsonOfRanks(midranks(values))
	return math.Erfc(math.Abs(rho) * math.Sqrt(float64(n-1)) / math.Sqrt2)
}

// midranks gives every value its rank from 1, tied ones their mean.
func midranks(values []float64) []float64 {
	x := sorted(values)
	ranks := make([]float64, len(values))
	for i, v := range values {
		low := sort.SearchFloat64s(x, v)
		high := sort.Search(len(x), func(i int) bool { return x[i] > v })
		ranks[i] = float64(low+high+1) / 2
	}
	return ranks
}

// pearsonOfRanks correlates ranks with 1..n; 0 when all are tied.
func pearsonOfRanks(ranks []float64) float64 {
	centre := float64(len(ranks)+1) / 2
	var xy, xx, yy float64
	for i, r := range ranks {
		x, y := float64(i+1)-centre, r-centre
		xy += x * y
		xx += x * x
		yy += y * y
	}
	if xx == 0 || yy == 0 {
		return 0
	}
	return xy / math.Sqrt(xx*yy)
}

// runWarnings are those that concern the run as a whole.
func (in Input) runWarnings(claims Claims) []string {
	var out []string
	if in.Planned > claims.Trials {
		out = append(out, fmt.Sprintf("the run is incomplete: %d of %d planned trials; finish it with `tare resume`", claims.Trials, in.Planned))
	}
	most := 0
	for _, t := range claims.Tables {
		rows := 0
		for _, r := range t.Rows {
			if r.Effect != nil {
				rows++
			}
		}
		most = max(most, rows)
	}
	if need := PlanBlocks(in.Alpha, most); most > 0 && in.Blocks > 0 && in.Blocks < need {
		out = append(out, (&TooFewBlocks{Blocks: in.Blocks, Need: need, Cells: most, Alpha: in.Alpha}).Error())
	}
	return append(out, in.noteWarnings()...)
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
		out = append(out, fmt.Sprintf("%s (%d of %d trials warn of this)", strings.TrimRight(n.first, "."), n.count, in.Data.trials))
	}
	if bad > 0 {
		out = append(out, fmt.Sprintf("%d values were not finite and are left out: the probe or the workload's parser that gave them is at fault", bad))
	}
	return out
}
