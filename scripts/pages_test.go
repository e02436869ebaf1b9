package scripts

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	drivers "github.com/tarelab/tare/internal/driver/all"
	experiments "github.com/tarelab/tare/internal/experiment/all"
)

// TestEachTargetIsDescribed: every target stands in the table of docs/targets/README.md,
// with a document that names it; every name that README.md's table gives is there, too.
func TestEachTargetIsDescribed(t *testing.T) {
	const dir = "../docs/targets"
	described := map[string]string{}
	row := regexp.MustCompile(`(?m)^\| (.*?) \| .* \| \[[^|]*\]\(([^)#]*)[^|]*\|$`)
	for _, m := range row.FindAllStringSubmatch(text(t, filepath.Join(dir, "README.md")), -1) {
		for _, name := range named.FindAllStringSubmatch(m[1], -1) {
			described[name[1]] = text(t, filepath.Join(dir, m[2]))
		}
	}
	names := slices.Collect(maps.Keys(drivers.Foreign()))
	for _, d := range drivers.Drivers(driver.Lab{}) {
		names = append(names, d.Name())
	}
	_, table, _ := strings.Cut(text(t, "../README.md"), "## Targets")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, line := range regexp.MustCompile(`(?m)^\| (.*?) \|`).FindAllStringSubmatch(table, -1) {
		for _, name := range named.FindAllStringSubmatch(line[1], -1) {
			if !strings.Contains(name[1], "@") { // two targets as the ends of a path
				names = append(names, name[1])
			}
		}
	}
	if len(names) < 60 {
		t.Errorf("%d targets were found: the test reads the wrong lists", len(names))
	}
	for _, name := range names {
		if strings.HasSuffix(name, "/restored") {
			name = "MACHINE/restored" // one row for all
		}
		// A document may name a variant alone: "virt" among StratoVirt's machines.
		if page, ok := described[name]; !ok || !strings.Contains(page, name) && !strings.Contains(page, "`"+filepath.Base(name)+"`") {
			t.Errorf("docs/targets/README.md has no row for %q with a document that names it", name)
		}
	}
}

// TestEachStudyIsDescribed: every built-in study has a section with its command.
func TestEachStudyIsDescribed(t *testing.T) {
	sections := map[string]string{}
	for _, part := range strings.Split(text(t, "../docs/built-in-studies.md"), "\n## ")[1:] {
		name, body, _ := strings.Cut(part, "\n")
		sections[name] = body
	}
	for _, name := range experiments.Experiments().StudyNames() {
		body := strings.ReplaceAll(sections[name], "*Reads\nas*", "*Reads as*")
		delete(sections, name)
		for _, want := range []string{"\ntare run " + name, "*Needs*", "*Reads as*"} {
			if !strings.Contains(body, want) {
				t.Errorf("docs/built-in-studies.md: the section %q lacks %q", name, want)
			}
		}
	}
	for name := range sections {
		t.Errorf("docs/built-in-studies.md describes %q, which is no built-in study", name)
	}
}

var named = regexp.MustCompile("`([^`]+)`")

func text(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
