// Package scripts tests what the repository promises of itself.
package scripts

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/tarelab/tare/"

// law is the import law of docs/architecture.md. The linter enforces it file by
// file; this test holds it over whole packages, so that a change of the
// linter's configuration cannot lift it unseen.
var law = []struct {
	rooms   []string // packages, with "/..." for all below
	forbid  []string // imports
	because string
}{
	{[]string{"internal/study", "internal/schedule", "internal/analysis", "internal/report"},
		[]string{"os", "os/exec", "syscall", "net", "net/http"}, "a pure room reads no files, runs nothing and talks to nobody"},
	{[]string{"internal/sample", "internal/target"}, []string{module}, "the record and the seam are leaves"},
	{[]string{"internal/target/host", "internal/target/native", "internal/target/oci", "internal/target/launch", "internal/sys"},
		[]string{module + "internal/trial", module + "internal/lab", module + "internal/cli", module + "internal/store", module + "internal/probe", module + "internal/analysis"},
		"a driver never sees the loop that times it"},
	{[]string{"internal/target/host"}, []string{module + "internal/target/native", module + "internal/target/oci"}, "siblings never import each other"},
	{[]string{"internal/target/native"}, []string{module + "internal/target/host", module + "internal/target/oci"}, "siblings never import each other"},
	{[]string{"internal/target/oci"}, []string{module + "internal/target/host", module + "internal/target/native"}, "siblings never import each other"},
	{[]string{"internal/cli", "internal/lab", "internal/trial", "internal/probe", "internal/store", "internal/image", "internal/workload", "internal/hostinfo", "cmd/tare"},
		[]string{module + "internal/target/host", module + "internal/target/native", module + "internal/target/oci", module + "internal/target/fake"},
		"only target/all names families"},
}

func TestImportLaw(t *testing.T) {
	for _, rule := range law {
		for _, room := range rule.rooms {
			for _, imported := range imports(t, room) {
				for _, f := range rule.forbid {
					if imported == f || strings.HasSuffix(f, "/") && strings.HasPrefix(imported, f) {
						t.Errorf("%s imports %s: %s", room, imported, rule.because)
					}
				}
			}
		}
	}
}

// imports are the direct imports of a package's own files, without its tests'.
func imports(t *testing.T, room string) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, "./"+room)
	cmd.Dir = filepath.Join("..")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go list %s: %v: %s", room, err, out)
	}
	return strings.Fields(string(out))
}

// TestClockLaw: only the loop stamps marks; a pure room or a driver that reads
// a clock would time itself.
func TestClockLaw(t *testing.T) {
	for _, room := range []string{"study", "schedule", "analysis", "report", "workload"} {
		out, err := exec.Command("grep", "-rnE", `time\.(Now|Since|Until)\(`, "--include=*.go", "--exclude=*_test.go", filepath.Join("..", "internal", room)).CombinedOutput()
		if err == nil {
			t.Errorf("%s reads a clock:\n%s", room, out)
		}
	}
}
