package main

import (
	"bytes"
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
)

var update = flag.Bool("update", false, "write docs/bars.md")

// TestDocument holds docs/bars.md to the promises and to what is recorded. After a
// change: go test ./bench -update
func TestDocument(t *testing.T) {
	const file = "../docs/bars.md"
	results, err := readRecorded("..")
	if err != nil {
		t.Fatal(err)
	}
	want, err := document("..", results)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/bars.md is not what bench has: go test ./bench -update")
	}
}

// Every bar has a promise and a result, and each of these has a bar.
func TestEveryBarIsPromised(t *testing.T) {
	all, err := promises()
	if err != nil {
		t.Fatal(err)
	}
	results, err := readRecorded("..")
	if err != nil {
		t.Fatal(err)
	}
	var names, promised []string
	for _, b := range everyBar() {
		names = append(names, b.name)
	}
	for _, p := range all {
		promised = append(promised, p.Name)
		if p.Promise == "" {
			t.Errorf("%s promises nothing", p.Name)
		}
	}
	if !slices.Equal(names, promised) {
		t.Errorf("bars %q, promises %q", names, promised)
	}
	known := []string{string(analysis.LimitMet), string(analysis.LimitBroken), string(analysis.LimitOpen), "not measured"}
	for name, r := range results {
		if !slices.Contains(names, name) || !slices.Contains(known, r.Verdict) || (r.On == "") != (r.Verdict == "not measured") {
			t.Errorf("recorded of %s: %+v", name, r)
		}
	}
	if len(results) != len(names) {
		t.Errorf("%d results of %d bars", len(results), len(names))
	}
}

// What is measured is kept, and the document shows it.
func TestRecord(t *testing.T) {
	root := t.TempDir()
	if err := os.CopyFS(root+"/bench", os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(root+"/docs", 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	if err := record(map[string]result{"help": {"a|b <7 ms", analysis.LimitBroken}}); err != nil {
		t.Fatal(err)
	}
	results, err := readRecorded(".")
	if err != nil || results["help"].Measured != "a|b <7 ms" || results["help"].Verdict != "broken" || results["native-floor"].Measured == "" {
		t.Errorf("%+v, %v", results, err)
	}
	page, err := os.ReadFile("docs/bars.md")
	if err != nil || !bytes.Contains(page, []byte("| a\\|b <7 ms | "+results["help"].On+" | **not met** |")) {
		t.Errorf("%v: the document does not show it", err)
	}
}
