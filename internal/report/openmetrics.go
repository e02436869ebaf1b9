package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/gate"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/store"
)

// OpenMetrics writes a run as gauges, for node_exporter's textfile collector and
// whatever reads OpenMetrics: medians and ratios of every cell and metric with their
// intervals, in base units; of runs that are compared the changes. FORMATS.md lists the
// families.
func OpenMetrics(w io.Writer, in Input) error {
	var f Families
	for _, m := range append([]store.Manifest{in.Manifest}, in.Others...) {
		f.Gauge("tare_run_info", "the run that the other metrics are of", 1, "run", m.ID, "study", m.Study.ID, "tare", m.Tool, "cpu", m.Host.CPU, "kernel", m.Host.Kernel)
		f.Gauge("tare_run_created_timestamp_seconds", "when the run began", float64(m.Created.Unix()), "run", m.ID)
	}
	cells := cellsByID(in.Manifest.Cells)
	for _, t := range in.Claims.Tables {
		for _, r := range t.Rows {
			c := cells[r.Cell]
			labels := []string{"cell", r.Cell, "workload", t.Workload, "target", r.Target, "metric", t.Metric.Name,
				"environment", c.Environment, "instances", strconv.Itoa(c.Copies)}
			f.addRow(r, append(labels, "unit", string(t.Metric.Unit)), labels)
		}
	}
	for _, c := range in.Claims.Comparisons {
		for _, r := range c.Rows {
			f.addChange(r.Effect, "cell", r.Cell, "workload", c.Workload, "target", r.Target, "metric", c.Metric.Name, "run", in.Manifest.ID, "with", c.With)
		}
	}
	return f.Write(w)
}

// Families are metric families, in the order in which their first metric came.
type Families struct {
	order []*dto.MetricFamily
	at    map[string]*dto.MetricFamily
}

func (f *Families) addRow(r analysis.Row, value, ratio []string) {
	f.Gauge("tare_failed_trials", "trials that failed", float64(r.Summary.Failed), ratio...)
	if r.Summary.N > 0 {
		f.Gauge("tare_samples", "samples of the metric", float64(r.Summary.N), ratio...)
		f.Gauge("tare_median", "median of the metric, in its unit", r.Summary.Median, value...)
		if quantity.Known(r.Summary.Interval) {
			f.Gauge("tare_median_low", "lower limit of the median's interval", r.Summary.Interval.Low, value...)
			f.Gauge("tare_median_high", "upper limit of the median's interval", r.Summary.Interval.High, value...)
		}
	}
	if e := r.Effect; e != nil && e.HasRatio() {
		f.Gauge("tare_ratio", "ratio to the run's control", e.Ratio, ratio...)
		if quantity.Known(e.Interval) {
			f.Gauge("tare_ratio_low", "lower limit of the ratio's interval", e.Interval.Low, ratio...)
			f.Gauge("tare_ratio_high", "upper limit of the ratio's interval", e.Interval.High, ratio...)
		}
	}
}

// addChange adds what became of a cell between two runs. Without a verdict there is
// nothing to add, as for the control.
func (f *Families) addChange(e *analysis.Effect, labels ...string) {
	if e == nil {
		return
	}
	if e.Verdict != "" {
		f.Gauge("tare_change_verdict", "1 for the verdict on the change", 1, append(labels, "verdict", string(e.Verdict))...)
	}
	if !e.HasRatio() || e.Verdict == analysis.NotComparable {
		return
	}
	f.Gauge("tare_change_ratio", "ratio of the later run to the first, each to its own control", e.Ratio, labels...)
	if quantity.Known(e.Interval) {
		f.Gauge("tare_change_ratio_low", "lower limit of the ratio's interval", e.Interval.Low, labels...)
		f.Gauge("tare_change_ratio_high", "upper limit of the ratio's interval", e.Interval.High, labels...)
	}
}

// Gauge adds a finite number that may fall, with names and values of labels in turn.
// Labels without a value are left out, as Prometheus has it.
func (f *Families) Gauge(name, help string, value float64, labels ...string) {
	f.add(dto.MetricType_GAUGE, &dto.Metric{Gauge: &dto.Gauge{Value: &value}}, name, help, value, labels)
}

// Counter adds a finite number that only grows, as Gauge does; its name ends in _total.
func (f *Families) Counter(name, help string, value float64, labels ...string) {
	f.add(dto.MetricType_COUNTER, &dto.Metric{Counter: &dto.Counter{Value: &value}}, name, help, value, labels)
}

func (f *Families) add(kind dto.MetricType, m *dto.Metric, name, help string, value float64, labels []string) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	family := f.at[name]
	if family == nil {
		family = &dto.MetricFamily{Name: &name, Help: &help, Type: &kind}
		if f.at == nil {
			f.at = map[string]*dto.MetricFamily{}
		}
		f.at[name], f.order = family, append(f.order, family)
	}
	for i := 0; i < len(labels); i += 2 {
		if name, text := labels[i], strings.ToValidUTF8(clean(labels[i+1]), "\ufffd"); text != "" {
			m.Label = append(m.Label, &dto.LabelPair{Name: &name, Value: &text})
		}
	}
	family.Metric = append(family.Metric, m)
}

// Write writes the families as OpenMetrics text.
func (f *Families) Write(w io.Writer) error {
	for _, family := range f.order {
		if _, err := expfmt.MetricFamilyToOpenMetrics(w, family); err != nil {
			return fmt.Errorf("write OpenMetrics: %w", err)
		}
	}
	if _, err := expfmt.FinalizeOpenMetrics(w); err != nil {
		return fmt.Errorf("write OpenMetrics: %w", err)
	}
	return nil
}

// gateOpenMetrics writes each limit's answer: 1 for the verdict that it got.
func gateOpenMetrics(w io.Writer, in GateInput) error {
	var f Families
	for _, a := range in.Answers {
		labels := []string{"run", a.Run, "cell", a.Cell, "metric", a.Metric, "limit", a.Limit}
		for _, v := range gate.Verdicts() {
			is := 0.
			if a.Verdict == v {
				is = 1
			}
			f.Gauge("tare_limit_verdict", "1 for the answer on the limit, 0 for the others", is, append(labels, "verdict", string(v))...)
		}
		if quantity.Known(a.Interval) {
			labels = append(labels, "against", a.Against, "unit", string(a.Unit))
			f.Gauge("tare_limit_value", "the number that the limit bounds", a.Value, labels...)
			f.Gauge("tare_limit_value_low", "lower limit of its interval", a.Interval.Low, labels...)
			f.Gauge("tare_limit_value_high", "upper limit of its interval", a.Interval.High, labels...)
		}
	}
	return f.Write(w)
}
