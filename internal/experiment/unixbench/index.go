package unixbench

import (
	"fmt"
	"slices"
)

// indexClaims are the Unix index of one target, by the number of copies.
type indexClaims struct {
	Tables    []indexTable `json:"tables"`
	Refused   string       `json:"refused,omitempty"`   // what noise has spoilt, as a sentence
	Emulated  string       `json:"emulated,omitempty"`  // why the scores are no machine's; "" for a real one
	Whetstone string       `json:"whetstone,omitempty"` // the variant that ran, see side
	Programs  programs     `json:"programs"`
}

// WhetstoneNote says which Whetstone stands in the index, how UnixBench's own
// differs and how to run that; "" where none ran.
func (c *indexClaims) WhetstoneNote() string {
	switch c.Whetstone {
	case "":
		return ""
	case variantKept:
		return "whetstone " + keptText + ", where the compiler may remove part of the work. tare index without --static runs as-compiled; docs/unix-index.md says more."
	}
	return fmt.Sprintf("whetstone is of the variant %s: as in UnixBench, the compiler may remove part of the work. The variant %s, of tare index --static, does all of it.", c.Whetstone, variantKept)
}

// indexTable is the Unix index with one number of copies.
type indexTable struct {
	Target string     `json:"target"`
	Copies int        `json:"copies"`
	Rows   []indexRow `json:"tests"`
	// UnixBench is the index over the rows by UnixBench's reduction, All by ours;
	// nil where no test gave a score.
	UnixBench *indexScore `json:"unixBench,omitempty"`
	All       *indexScore `json:"all,omitempty"`
	Refused   string      `json:"refused,omitempty"` // why nothing is claimed of the indexes: a test that they hold
}

// indexRow is one test. Its scores are reduced in two ways, see
// passes. UnixBench's of whetstone is by CPU time, as UnixBench
// 5.1.3 times it; ours are by wall time.
type indexRow struct {
	Test     string  `json:"test"`
	Unit     string  `json:"unit"`              // of Baseline and Result
	Baseline float64 `json:"baseline"`          // of the machine that scores 10
	Result   float64 `json:"result"`            // of UnixBench's reduction
	CPUTime  bool    `json:"cpuTime"`           // Result and UnixBench's score are by CPU time
	Refused  string  `json:"refused,omitempty"` // why nothing is claimed of it; "" where something may be
	NextTo   *nextTo `json:"nextTo,omitempty"`  // the user's own UnixBench; nil where none ran
	passes
}

// LeftOut says how many passes UnixBench's reduction leaves out of each test.
func (t indexTable) LeftOut() string {
	first := t.Rows[0].passes
	if slices.ContainsFunc(t.Rows, func(r indexRow) bool { return r.Dropped != first.Dropped || r.Passes != first.Passes }) {
		return "the worst third of each test's passes left out"
	}
	return fmt.Sprintf("%d of %d passes, the worst, left out", first.Dropped, first.Passes)
}

// Total sets the indexes over the rows, refused where a row is; it fails where a
// score is none.
func (t *indexTable) Total() error {
	if len(t.Rows) == 0 {
		return nil
	}
	unixBench, all := map[string]float64{}, map[string]float64{}
	for _, r := range t.Rows {
		unixBench[r.Test], all[r.Test] = r.UnixBench, r.passes.All
		if r.Refused != "" && t.Refused == "" {
			t.Refused = holds(r.Test, r.Refused)
		}
	}
	a, err := newIndex(unixBench)
	if err != nil {
		return err
	}
	b, err := newIndex(all)
	if err != nil {
		return err
	}
	t.UnixBench, t.All = &a, &b
	return nil
}
