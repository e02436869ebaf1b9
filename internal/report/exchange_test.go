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
