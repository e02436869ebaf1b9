// Package experimenttest tests experiments on recorded runs: a report of each, in
// every format, must stay as it is until somebody changes it on purpose.
package experimenttest

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/store"
)

var update = flag.Bool("update", false, "write the reports of recorded runs instead of comparing with them")

// Reports writes the report of each run in testdata/runs in every format, and
// compares it with testdata/reports/RUN.FORMAT. With -update it writes these. The
// page is compared in what it says, not in how it looks: it must hold every
// sentence and table of the sections.
func Reports(t *testing.T, l experiment.List) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join("testdata", "runs", "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("testdata/runs holds no run: %v", err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) { reports(t, l, dir) })
	}
}

func reports(t *testing.T, l experiment.List, dir string) {
	run, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	in, err := l.Report(run)
	if err != nil {
		t.Fatal(err)
	}
	if len(in.Sections) == 0 {
		t.Errorf("the experiment says nothing of its recorded run; warnings: %q", in.Claims.Warnings)
	}
	for _, f := range []report.Format{report.FormatText, report.FormatMarkdown, report.FormatCSV, report.FormatJSON} {
		var out bytes.Buffer
		if err := report.Write(&out, f, in, report.Options{Width: 120, All: true}); err != nil {
			t.Fatal(err)
		}
		same(t, filepath.Join("testdata", "reports", filepath.Base(dir)+"."+string(f)), out.Bytes())
	}
	var summary bytes.Buffer
	if err := report.Text(&summary, in, report.Options{}); err != nil {
		t.Fatal(err)
	}
	if rows := bytes.Count(summary.Bytes(), []byte("\n")); rows > 40 {
		t.Errorf("the summary has %d rows, want 40 at most", rows)
	}
	same(t, filepath.Join("testdata", "reports", filepath.Base(dir)+".summary.text"), summary.Bytes())
	page(t, in)
}

// same compares with a file, or writes it.
func same(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, got, 0o644)); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (run the test with -update to make it)", err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s differs (-want +got):\n%s", file, d)
	}
}

// page checks that the page holds what the sections say.
func page(t *testing.T, in report.Input) {
	t.Helper()
	var out bytes.Buffer
	if err := report.HTML(&out, in); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, s := range in.Sections {
		want := []string{`"id":"` + s.ID + `"`}
		for _, g := range s.Tables {
			want = append(want, `"title":"`+g.Title)
		}
		for _, f := range s.Figures {
			want = append(want, `"title":"`+f.Title)
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("section %s: the page lacks %s", s.ID, w)
			}
		}
	}
}
