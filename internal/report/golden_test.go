package report_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/report/reporttest"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

func TestGolden(t *testing.T) {
	survey, ladder, hostile, compared := reporttest.Survey(), reporttest.Ladder(), reporttest.Hostile(), reporttest.Compared()
	cases := []struct {
		file   string
		in     report.Input
		format report.Format
		o      report.Options
	}{
		{"survey.txt", survey, report.FormatText, report.Options{Width: 120, All: true}},
		{"survey-80.txt", survey, report.FormatText, report.Options{Width: 80, All: true}},
		{"survey-color.txt", survey, report.FormatText, report.Options{Color: true, All: true}},
		{"survey-summary.txt", survey, report.FormatText, report.Options{Width: 100}},
		{"survey-summary-80.txt", survey, report.FormatText, report.Options{Width: 80}},
		{"survey-summary-color.txt", survey, report.FormatText, report.Options{Width: 100, Color: true}},
		{"ladder-summary.txt", ladder, report.FormatText, report.Options{Width: 100}},
		{"hostile-summary.txt", hostile, report.FormatText, report.Options{Width: 100}},
		{"compared-summary.txt", compared, report.FormatText, report.Options{Width: 100}},
		{"compared-summary-80.txt", compared, report.FormatText, report.Options{Width: 80}},
		{"compared.csv", compared, report.FormatCSV, report.Options{}},
		{"survey.md", survey, report.FormatMarkdown, report.Options{}},
		{"survey.csv", survey, report.FormatCSV, report.Options{}},
		{"ladder.txt", ladder, report.FormatText, report.Options{Width: 100, All: true}},
		{"ladder.md", ladder, report.FormatMarkdown, report.Options{}},
		{"hostile.txt", hostile, report.FormatText, report.Options{Width: 100, All: true}},
		{"hostile.md", hostile, report.FormatMarkdown, report.Options{}},
		{"hostile.csv", hostile, report.FormatCSV, report.Options{}},
		{"hostile.json", hostile, report.FormatJSON, report.Options{}},
	}
	for _, c := range cases {
		t.Run(c.file, func(t *testing.T) {
			var out bytes.Buffer
			if err := report.Write(&out, c.format, c.in, c.o); err != nil {
				t.Fatal(err)
			}
			golden(t, c.file, out.Bytes())
		})
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run the test with -update to make it)", err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s differs (-want +got):\n%s", file, d)
	}
}
