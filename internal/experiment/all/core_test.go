package all_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	experiments "github.com/tarelab/tare/internal/experiment/all"
)

// The core knows no study: no file of these folders names one that an experiment has.
// Names without a hyphen are words that a core may use.
func TestCoreNamesNoExperiment(t *testing.T) {
	var names []string
	for _, e := range experiments.Experiments() {
		names = append(names, e.Name)
		for name := range e.More {
			names = append(names, name)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.Contains(name, "-") })
	if len(names) < 6 {
		t.Fatalf("only %q", names)
	}
	root, read := filepath.Join("..", "..", ".."), 0
	for _, folder := range []string{"internal/analysis", "internal/report", "internal/lab", "internal/cli", "internal/claim", "internal/finding", "internal/stats", "internal/store",
		"internal/study", "internal/schedule", "internal/trial", "internal/preflight", "web/src"} {
		files, err := os.ReadDir(filepath.Join(root, folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if f.IsDir() || strings.HasSuffix(f.Name(), "_test.go") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(root, folder, f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			read++
			for _, name := range names {
				if strings.Contains(string(text), name) {
					t.Errorf("%s/%s names the study %s: what it says belongs into that experiment's folder", folder, f.Name(), name)
				}
			}
		}
	}
	if read < 100 {
		t.Errorf("only %d files were read", read)
	}
}
