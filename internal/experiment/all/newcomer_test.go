package all_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// A newcomer adds an experiment by docs/adding-an-experiment.md: one folder, and one
// line in this package with its import. The build knows the study, and a report of
// its run says what the experiment says. The compiler's overlay puts both in place, so
// that the tree stays as it is.
func TestAnExperimentIsOneFolderAndOneLine(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	const path = "internal/experiment/quickstart"
	replace := map[string]string{}
	for _, file := range []string{"study.yaml", "published.yaml", "experiment.go"} {
		replace[filepath.Join(root, path, file)] = filepath.Join(root, "internal/experiment/all/testdata/quickstart", file)
	}
	replace[filepath.Join(root, "internal/experiment/all/all.go")] = withLine(t, path)
	tool := build(t, root, replace)

	text, err := exec.Command(tool, "studies", "quick-start").Output()
	if err != nil || !strings.Contains(string(text), "A start against a published one") {
		t.Errorf("tare studies quick-start: %v: %s", err, text)
	}
	text, err = exec.Command(tool, "report", quickRun(t)).Output()
	if err != nil || !strings.Contains(string(text), "A start takes 2.00 ms here; published are 1.5 ms.") {
		t.Errorf("tare report: %v: %s", err, text)
	}
}

// withLine is the list of experiments with one more.
func withLine(t *testing.T, path string) string {
	t.Helper()
	list, err := os.ReadFile("all.go")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(list), "import (\n", "import (\n\t\"github.com/tarelab/tare/"+path+"\"\n", 1)
	text = strings.Replace(text, "experiment.List{\n", "experiment.List{\n\t\tquickstart.Experiment(),\n", 1)
	file := filepath.Join(t.TempDir(), "all.go")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func build(t *testing.T, root string, replace map[string]string) string {
	t.Helper()
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file, tool := filepath.Join(t.TempDir(), "overlay.json"), filepath.Join(t.TempDir(), "tare")
	if err := os.WriteFile(file, overlay, 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("go", "build", "-overlay", file, "-o", tool, "./cmd/tare")
	c.Dir = root
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build tare with one more experiment: %v\n%s", err, out)
	}
	return tool
}

// quickRun is a run of the newcomer's study, three starts of 2 ms.
func quickRun(t *testing.T) string {
	t.Helper()
	cell := study.Cell{ID: "host/start", Target: "host", Workload: "start", Group: "start", Copies: 1, Control: true}
	run, err := store.Create(t.TempDir(), store.Manifest{Tool: "test", Trials: 3, Cells: []study.Cell{cell},
		Metrics: map[string][]sample.Metric{"start": sample.Describe(sample.Ready)},
		Study: study.Study{ID: "quick-start", Title: "A start", Targets: []string{"host"}, Control: "host", Blocks: 3,
			Workloads: []study.Workload{{Name: "start", Kind: "start"}}}.WithDefaults()})
	if err != nil {
		t.Fatal(err)
	}
	for block := range 3 {
		if err := run.Append(sample.Record{Seq: block, Block: block, Cell: cell.ID, Values: map[string][]float64{sample.Ready: {0.002}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	return run.Dir()
}
