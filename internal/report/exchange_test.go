package report_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/perf/benchfmt"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/gate"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/report/reporttest"
)

// The formats are read by the parsers of those who made them.

func TestBenchstatReadsTheSamples(t *testing.T) {
	in := reporttest.Survey()
	in.Manifest.Host.CPU = "Some CPU\nkey: forged"
	var out bytes.Buffer
	if err := report.Benchstat(&out, in); err != nil {
		t.Fatal(err)
	}
	samples := 0
	for _, table := range in.Claims.Tables {
		for _, row := range table.Rows {
			if table.Primary {
				samples += len(row.Samples)
			}
		}
	}
	read, better := 0, 0
	reader := benchfmt.NewReader(&out, "run.txt")
	for reader.Scan() {
		switch r := reader.Result().(type) {
		case *benchfmt.Result:
			read++
			base, parts := r.Name.Parts()
			if len(base) == 0 || len(parts) == 0 || !strings.HasPrefix(string(parts[0]), "/target=") || len(r.Values) != 1 {
				t.Fatalf("%q %v", r.Name, r.Values)
			}
			if cpu := r.GetConfig("cpu"); cpu != "Some CPU key: forged" || r.GetConfig("key") != "" {
				t.Fatalf("cpu %q", cpu)
			}
		case *benchfmt.UnitMetadata:
			better++
		case *benchfmt.SyntaxError:
			t.Fatal(r)
		}
	}
	if err := reader.Err(); err != nil || read != samples || samples == 0 || better == 0 {
		t.Errorf("%d samples read of %d, %d units: %v", read, samples, better, err)
	}
}

func parsed(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	if !strings.HasSuffix(text, "# EOF\n") {
		t.Errorf("no end: %q", text)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return families
}

func TestOpenMetricsAreRead(t *testing.T) {
	in := reporttest.Survey()
	in.Manifest.Host.CPU = "a \"CPU\"\\\nforged 1"
	var out bytes.Buffer
	if err := report.OpenMetrics(&out, in); err != nil {
		t.Fatal(err)
	}
	families := parsed(t, out.String())
	if families["forged"] != nil || families["tare_run_info"] == nil {
		t.Errorf("%v", families)
	}
	table := in.Claims.Tables[0]
	for _, row := range table.Rows {
		found := false
		for _, m := range families["tare_ratio"].GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["cell"] == row.Cell && labels["metric"] == table.Metric.Name {
				found = true
				if row.Effect == nil || m.GetGauge().GetValue() != row.Effect.Ratio {
					t.Errorf("%s: %v", row.Cell, m)
				}
			}
		}
		if found != (row.Effect != nil && row.Effect.Difference == nil) {
			t.Errorf("%s: a ratio %t", row.Cell, found)
		}
	}
}

// Of runs that are compared each judged cell has its verdict, and a ratio unless it is
// not comparable; metrics without a verdict have the ratio alone.
func TestChangesInOpenMetrics(t *testing.T) {
	in := reporttest.Compared()
	var out bytes.Buffer
	if err := report.OpenMetrics(&out, in); err != nil {
		t.Fatal(err)
	}
	families := parsed(t, out.String())
	if runs := families["tare_run_info"].GetMetric(); len(runs) != 2 {
		t.Errorf("%d runs", len(runs))
	}
	of := func(family string) map[string]string { // what is in place of a number's labels
		found := map[string]string{}
		for _, m := range families[family].GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["run"] != in.Manifest.ID || labels["with"] != in.Others[0].ID || labels["workload"] == "" || labels["target"] == "" {
				t.Errorf("%s: %v", family, labels)
			}
			found[labels["cell"]+" "+labels["metric"]] = labels["verdict"]
		}
		return found
	}
	verdicts, ratios, lows, highs := of("tare_change_verdict"), of("tare_change_ratio"), of("tare_change_ratio_low"), of("tare_change_ratio_high")
	refused := 0
	for _, c := range in.Claims.Comparisons {
		for _, r := range c.Rows {
			name := r.Cell + " " + c.Metric.Name
			want := ""
			if r.Effect != nil {
				want = string(r.Effect.Verdict)
			}
			_, ratio := ratios[name]
			_, low := lows[name]
			_, high := highs[name]
			comparable := r.Effect != nil && r.Effect.Verdict != analysis.NotComparable
			if verdicts[name] != want || ratio != comparable || low != ratio || high != ratio {
				t.Errorf("%s: verdict %q, want %q; ratio %t, want %t", name, verdicts[name], want, ratio, comparable)
			}
			if r.Effect != nil && !comparable {
				refused++
			}
		}
	}
	if refused == 0 || len(ratios) == 0 {
		t.Errorf("%d ratios, %d cells that are not comparable: the test looks at nothing", len(ratios), refused)
	}
}

// Samples of several runs stand under the run that each is of, and a unit is explained once.
func TestBenchstatOfSeveralRuns(t *testing.T) {
	first, second := reporttest.Survey(), reporttest.Survey()
	second.Manifest.ID, second.Manifest.Image = "20261122-090000-survey", ""
	var out bytes.Buffer
	if err := report.Benchstat(&out, first, second); err != nil {
		t.Fatal(err)
	}
	samples, units := map[string]int{}, map[string]int{}
	reader := benchfmt.NewReader(&out, "runs.txt")
	for reader.Scan() {
		switch r := reader.Result().(type) {
		case *benchfmt.Result:
			samples[r.GetConfig("run")+" "+r.GetConfig("image")]++
		case *benchfmt.UnitMetadata:
			units[r.Unit]++
		case *benchfmt.SyntaxError:
			t.Fatal(r)
		}
	}
	one := samples[first.Manifest.ID+" "+first.Manifest.Image]
	if len(samples) != 2 || one == 0 || samples[second.Manifest.ID+" "] != one {
		t.Errorf("samples by run and image: %v", samples)
	}
	for unit, n := range units {
		if n != 1 {
			t.Errorf("%s is explained %d times", unit, n)
		}
	}
}

func TestGateInOpenMetrics(t *testing.T) {
	verdicts := parsed(t, written(t, report.FormatOpenMetrics, gateFound()))["tare_limit_verdict"].GetMetric()
	yes := 0.
	for _, m := range verdicts {
		yes += m.GetGauge().GetValue()
	}
	if want := len(gate.Verdicts()); len(verdicts) != want*want || yes != float64(want) {
		t.Errorf("%d verdicts, %g of them given", len(verdicts), yes)
	}
}

func TestGateInBenchstat(t *testing.T) {
	in := gateFound()
	in.Runs = []report.Input{reporttest.Survey()}
	if text := written(t, report.FormatBenchstat, in); !strings.Contains(text, "\nBenchmark") {
		t.Errorf("%q", text)
	}
	for _, format := range []report.Format{report.FormatBenchstat, report.FormatOpenMetrics} {
		if err := report.Write(brokenDisk{}, format, reporttest.Survey(), report.Options{}); !errors.Is(err, errBroken) {
			t.Errorf("%s: %v", format, err)
		}
	}
}

type brokenDisk struct{}

var errBroken = errors.New("broken")

func (brokenDisk) Write([]byte) (int, error) { return 0, errBroken }
