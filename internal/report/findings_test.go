package report

import (
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

func TestNoiseFindingTellsWhyItIsUnknown(t *testing.T) {
	control := analysis.Row{Label: "host", Control: true, Summary: analysis.Summary{N: 2}}
	twin := func(n int, e *analysis.Effect) analysis.Row {
		return analysis.Row{Label: "host (A/A)", AA: true, Summary: analysis.Summary{N: n}, Effect: e}
	}
	few := &analysis.Effect{Ratio: 1, Interval: stats.Interval{Low: 1, High: 1, Method: "none"}}
	for _, c := range []struct {
		want  string
		noise float64
		rows  []analysis.Row
	}{
		{"differs from itself by up to 2 %", 0.02, []analysis.Row{control, twin(9, &analysis.Effect{Ratio: 1, Interval: interval(0.98, 1.02)})}},
		{"agrees exactly", 0, []analysis.Row{control, twin(9, &analysis.Effect{Ratio: 1, Interval: interval(1, 1)})}},
		{"too few blocks to know", 0, []analysis.Row{control, twin(2, few)}},
		{"too few blocks to know", 0, []analysis.Row{control, twin(2, nil)}},
		{"too few blocks to know", 0, []analysis.Row{control, twin(2, &analysis.Effect{Ratio: 1, Reached: 0.5, Interval: interval(0.99, 1.02)})}},
		{"was not run twice", 0, []analysis.Row{control}},
	} {
		in := Input{Claims: analysis.Claims{Tables: []analysis.Table{{Group: "start", Primary: true, Noise: c.noise, Rows: c.rows}}}}
		got := strings.Join(noiseFinding(newView(in)), " ")
		if !strings.Contains(got, c.want) {
			t.Errorf("%d rows, noise %v: got %q, want %q", len(c.rows), c.noise, got, c.want)
		}
	}
	if got := noiseFinding(newView(Input{})); got != nil {
		t.Errorf("without tables: %q", got)
	}
}

func interval(low, high float64) stats.Interval {
	return stats.Interval{Low: low, High: high, Level: 0.95, Method: "BCa"}
}

// The dearest step of a ladder of rates is the one that loses most, not that gains.
func TestDearestStepOfRatesLoses(t *testing.T) {
	ladder := func(better sample.Better) analysis.Ladder {
		return analysis.Ladder{Group: "calls", Metric: sample.Metric{Name: "m", Unit: sample.PerSecond, Better: better}, Base: "a", BaseMedian: 10,
			Steps: []analysis.Step{{From: "a", To: "b", Median: 6, Delta: -4}, {From: "b", To: "c", Median: 8, Delta: 2}}}
	}
	for better, want := range map[sample.Better]string{sample.Higher: "the dearest is b", sample.Lower: "the dearest is c"} {
		in := Input{Claims: analysis.Claims{Ladders: []analysis.Ladder{ladder(better)}}}
		if got := strings.Join(findings(newView(in)), " "); !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", better, got, want)
		}
	}
}
