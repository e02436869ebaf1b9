package kernelwaits

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/experiment/experimenttest"
	"github.com/tarelab/tare/internal/store"
)

// The recorded runs are of two blocks: churn of cgroups by one task and by four, and
// two arms of the interventions, of whose 400 starts a trial 100 are kept.
func TestReports(t *testing.T) {
	experimenttest.Reports(t, experiment.List{Experiment()})
}

// One empty profile costs that profile: on a2ee321 there was no report at all.
func TestReportWithoutAProfile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := errors.Join(os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "runs", "20261123-075021-cgroup-churn"))),
		os.WriteFile(filepath.Join(dir, "profiles", "4.json.gz"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	run, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	in, err := experiment.List{Experiment()}.Report(run)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, s := range in.Sections {
		told = append(told, s.Warnings...)
	}
	if !strings.Contains(strings.Join(told, "\n"), "profile of trial 4") {
		t.Errorf("nothing says that a profile is missing: %q", told)
	}
	if len(in.Sections) == 0 {
		t.Error("the other profiles give no section")
	}
}
