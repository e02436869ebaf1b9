// Package analysis turns records into claims: effects, intervals, verdicts,
// warnings. It is pure: numbers in, numbers out.
package analysis

import (
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

// Verdict is what a comparison may claim.
type Verdict string

// The verdicts.
const (
	Slower        Verdict = "slower"         // the whole interval lies beyond 1; Faster likewise
	Faster        Verdict = "faster"         //
	More          Verdict = "more"           // the same of what is neither a time nor a rate, as Less
	Less          Verdict = "less"           //
	Same          Verdict = "same"           // the whole interval lies within the margin
	Open          Verdict = "open"           // neither is shown: the interval is the bound
	NotComparable Verdict = "not comparable" // the machine was too noisy, the control failed, or the work was not the same
)

// Shown reports whether the verdict is that the target differs from its control.
func (v Verdict) Shown() bool { return v == Slower || v == Faster || v == More || v == Less }

// Summary describes one cell's samples of one metric.
type Summary struct {
	N        int            `json:"n"`
	Failed   int            `json:"failed"`
	Median   float64        `json:"median"`
	Mean     float64        `json:"mean"`
	Min      float64        `json:"min"`
	Max      float64        `json:"max"`
	P90      float64        `json:"p90"`
	P99      *float64       `json:"p99,omitempty"` // only from 100 samples on
	MAD      float64        `json:"mad"`           // median absolute deviation, unscaled
	Outliers int            `json:"outliers"`      // beyond 3.5 in the modified z-score (Iglewicz and Hoaglin 1993); flagged, never removed
	Interval stats.Interval `json:"interval"`      // of the median
	// Copies describes the single copies' values where a trial ran several at
	// once; everything above counts a trial with the mean of its copies.
	Copies *Copies `json:"copies,omitempty"`
}

// Copies is the distribution over all single copies of a cell's trials.
type Copies struct {
	N      int      `json:"n"`
	Median float64  `json:"median"`
	P90    float64  `json:"p90"`
	P99    *float64 `json:"p99,omitempty"` // only from 100 on
	Max    float64  `json:"max"`
}

// Effect is one cell against its group's control, for one metric.
type Effect struct {
	Ratio float64 `json:"ratio,omitempty"` // of the target's value to its control's; the Hodges-Lehmann estimate over blocks
	// Interval of Ratio. In a primary table all intervals hold together with 1 -
	// alpha, so the level of each is higher; in other tables it is 95 %.
	Interval stats.Interval `json:"interval"`
	P        float64        `json:"p"`      // that there is no effect, two-sided, of this cell alone
	Blocks   int            `json:"blocks"` // pairs used
	Verdict  Verdict        `json:"verdict,omitempty"`
	// BelowMargin: the effect is certain, and smaller than the margin.
	BelowMargin bool `json:"belowMargin,omitempty"`
	// Size is an effect that is certain, in words: "1.8 % slower". Bound is what an
	// open one leaves possible: "between 2 % faster and 3 % slower".
	Size  string `json:"size,omitempty"`
	Bound string `json:"bound,omitempty"`
	// Need is about how many blocks would settle an open verdict; 0 = not known.
	Need int `json:"need,omitempty"`
	// Detectable is the smallest effect, as a ratio-1, that 80 % of runs with the blocks
	// of an open one show; 0 = not known.
	Detectable float64 `json:"detectable,omitempty"`
	Why        string  `json:"why"` // which rule gave the verdict
	// Reached is the level of Interval where the blocks are too few for the level
	// that the verdict needs; 0 where they suffice.
	Reached float64 `json:"reachedLevel,omitempty"`
	// Difference stands in for the ratio where there is none, because values
	// are zero or negative: then Ratio is 0 and Interval has the method "none". A
	// report must not show such a Ratio.
	Difference *Difference `json:"difference,omitempty"`
}

// HasRatio reports whether Ratio is a number: where the two have no block in common, or values
// without logarithms, it is 0 and none.
func (e *Effect) HasRatio() bool { return e.Difference == nil && e.Ratio > 0 }

// Difference is one cell minus its control within the block, in the metric's unit.
type Difference struct {
	Median   float64        `json:"median"`
	Interval stats.Interval `json:"interval"` // of Median, at the level of Effect.Interval
}

// Row is one cell of a table.
type Row struct {
	Cell    string          `json:"cell"`
	Target  string          `json:"target"`
	Label   string          `json:"label"` // as shown: "runc", "host (A/A)"
	Control bool            `json:"control"`
	AA      bool            `json:"aa"`
	Accel   string          `json:"accel,omitempty"` // what ran a virtual machine's CPU: "kvm" or "tcg"; "" for what is none
	Summary Summary         `json:"summary"`
	Cold    *float64        `json:"cold,omitempty"`    // the first trial's value, reported apart
	Effect  *Effect         `json:"effect,omitempty"`  // nil for the control and where nothing can be compared
	Samples []float64       `json:"samples"`           // in block order, every one (reports may thin them and must say so)
	Failure *sample.Failure `json:"failure,omitempty"` // the first one, where trials failed
}

// Table is one group and metric: what a level is corrected for.
type Table struct {
	Group    string        `json:"group"`
	Workload string        `json:"workload"`
	Metric   sample.Metric `json:"metric"`
	Primary  bool          `json:"primary"` // the metric that the price list shows for this group
	// Noise is how far the control may differ from itself: the farther limit of the
	// A/A pair's 95 % interval, as a ratio-1; 0 when unknown.
	Noise float64 `json:"noise"`
	Rows  []Row   `json:"rows"`
	// Refused is why nothing is claimed of the cells' values by themselves or against those
	// of another group; "" where something may be. It refuses the effects as well, unless
	// it is a disturbance of the machine and the control has a twin that agrees with it.
	Refused string `json:"refused,omitempty"`
}

// Step is one rung of a ladder.
type Step struct {
	From string `json:"from"` // target
	To   string `json:"to"`   // target
	// Beside: To is an alternative to the next rung. It is measured from the same
	// rung as that one, and the chain does not go through it.
	Beside   bool           `json:"beside,omitempty"`
	Median   float64        `json:"median"`   // of To, in the metric's unit
	Delta    float64        `json:"delta"`    // median(To) - median(From); deltas telescope to the total
	Interval stats.Interval `json:"interval"` // of Delta, from one joint bootstrap over blocks
}

// Ladder is a chain of steps whose deltas, without those beside it, sum to Total.
type Ladder struct {
	Group        string         `json:"group"`
	Metric       sample.Metric  `json:"metric"`
	Base         string         `json:"base"` // the first target
	BaseMedian   float64        `json:"baseMedian"`
	BaseInterval stats.Interval `json:"baseInterval"`
	Steps        []Step         `json:"steps"`
	Total        float64        `json:"total"`             // median(last) = BaseMedian + sum of Deltas
	Rise         stats.Estimate `json:"rise"`              // Total - BaseMedian, with its interval from the same bootstrap
	Blocks       int            `json:"blocks"`            // that hold every rung: the others are in no number of the ladder
	LeftOut      []string       `json:"leftOut,omitempty"` // targets without a rung, because they gave too few blocks
	Refused      string         `json:"refused,omitempty"` // why nothing is claimed of it
}

// Change is one cell in two runs.
type Change struct {
	Cell    string  `json:"cell"`
	Target  string  `json:"target"`
	Label   string  `json:"label"`
	Control bool    `json:"control"`
	AA      bool    `json:"aa"`
	A       Summary `json:"a"`
	B       Summary `json:"b"`
	Raw     float64 `json:"raw,omitempty"` // median(B)/median(A), the machine's own change included; 0 = there is no ratio
	// Effect is the change of the cell's ratio to its own run's control: what is
	// left when the machine's change is divided out. nil for the control and
	// where all trials failed in one of the runs.
	Effect *Effect `json:"effect,omitempty"`
}

// Failed reports whether one of the runs has no sample of the cell, because its trials failed.
func (c Change) Failed() bool { return c.A.N == 0 || c.B.N == 0 }

// Comparison is one group and metric in two runs, A (before) and B (after).
type Comparison struct {
	With     string        `json:"with,omitempty"` // the id of B, where its claims are told from others'
	Group    string        `json:"group"`
	Workload string        `json:"workload"`
	Metric   sample.Metric `json:"metric"`
	Primary  bool          `json:"primary"`
	Noise    float64       `json:"noise"` // how far the twins of the two runs are from their controls together, as a ratio-1
	Rows     []Change      `json:"rows"`
}

// FailedCell is a cell of which trials failed.
type FailedCell struct {
	Run     string          `json:"run,omitempty"` // Input.Run
	Cell    string          `json:"cell"`
	Label   string          `json:"label"`
	Group   string          `json:"group"`
	Failed  int             `json:"failed"`
	Of      int             `json:"of"`                // trials that failed or gave samples; a cold one gives none
	Failure *sample.Failure `json:"failure,omitempty"` // the first
}

// Claims is all that can be said of one run, or of several compared.
type Claims struct {
	Tables  []Table      `json:"tables"`
	Ladders []Ladder     `json:"ladders,omitempty"`
	Failed  []FailedCell `json:"failed,omitempty"` // in the order of the runs and of their cells
	// Comparisons is filled by Compare only.
	Comparisons []Comparison `json:"comparisons,omitempty"`
	// Surroundings are what else differs between runs that are compared.
	Surroundings []Surrounding `json:"surroundings,omitempty"`
	Warnings     []Warning     `json:"warnings,omitempty"` // noise, drift, residue, few blocks: what to know and what to do
	Alpha        float64       `json:"alpha"`
	Margin       float64       `json:"margin"`
	Failures     int           `json:"failures"` // failed trials
	Trials       int           `json:"trials"`   // finished trials
	Planned      int           `json:"planned"`
}
