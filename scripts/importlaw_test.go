// Package scripts tests what the repository promises of itself.
package scripts

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/tarelab/tare/"

// families are the drivers' packages. netpath is a driver, too, but knows drivers by
// their interface alone, and the laboratory puts it around them.
var families = []string{"host", "native", "oci", "engine", "vm", "fake"}

// below names packages of this module.
func below(dir string, names ...string) []string {
	var all []string
	for _, name := range names {
		all = append(all, dir+name)
	}
	return all
}

// rule says which imports packages may not have, and why.
type rule struct {
	rooms   []string // packages, with "/..." for all below
	forbid  []string // imports; with a slash at the end all below
	because string
}

// law is the import law of docs/architecture.md. The linter enforces it file by
// file; this test holds it over whole packages, so that a change of the
// linter's configuration cannot lift it unseen.
func law() []rule {
	drivers := append(below("internal/driver/", families...), "internal/driver/netpath")
	all := []rule{
		{[]string{"internal/study", "internal/schedule", "internal/stats", "internal/analysis", "internal/claim", "internal/gate", "internal/history", "internal/finding", "internal/quantity", "internal/report", "internal/limit", "internal/profile", "internal/kerneltools/bootlog"},
			[]string{"os", "os/exec", "syscall", "net", "net/http"}, "a pure room reads no files, runs nothing and talks to nobody"},
		{[]string{"internal/sample", "internal/stats"}, []string{module}, "the record and the statistics are leaves"},
		{[]string{"internal/driver"}, []string{module}, "the seam knows the record alone"},
		{append(below("internal/driver/", "launch", "bundle"), append(drivers, "internal/vmm", "internal/net", "internal/sys")...),
			below(module+"internal/", "trial", "lab", "cli", "store", "probe", "analysis"), "a driver never sees the loop that times it"},
		{[]string{"internal/cli", "internal/lab", "internal/preflight", "internal/trial", "internal/probe/...", "internal/store", "internal/image", "internal/workload", "internal/hostinfo",
			"internal/net", "internal/vmm", "internal/profile", "internal/study", "internal/analysis", "internal/report", "cmd/tare"},
			below(module+"internal/driver/", families...), "only driver/all names families"},
	}
	var noVM []string // container hosts stand on the virtual machines
	for _, family := range families {
		if family != "vm" {
			noVM = append(noVM, module+"internal/driver/"+family)
		}
	}
	all = append(all, rule{[]string{"internal/kerneltools/..."}, noVM, "only driver/all names families; container hosts stand on virtual machines"})
	all = append(all, rule{drivers, []string{module + "internal/kerneltools/"}, "a driver needs no kernel tools: container hosts are kerneltools' own"})
	all = append(all, rule{[]string{"internal/preflight"}, below(module+"internal/", "trial", "lab", "cli", "store", "report"), "preflight decides whether a cell can be measured, and measures nothing"})
	all = append(all, rule{below("internal/", "driver", "trial", "schedule", "sample", "study", "stats", "store", "preflight", "workload", "probe", "report", "cli", "lab", "analysis"),
		append(below(module+"internal/kerneltools/", "bootlog", "boots", "bootstudy", "containerhost", "hostimage", "proof", "kbuild", "kconfig", "textfile", "trim"), module+"internal/kerneltools"), "the kernel's tools use the laboratory, which does not need them"})
	engines := []string{"internal/fleet/engine", "internal/fleet/kubernetes"}
	all = append(all, rule{engines, append(below(module+"internal/", "fleet", "cli", "lab", "store", "analysis"), below(module+"internal/fleet/", "all", "fake", "slurm", "kubernetes")...), "an engine runs a program on a machine, and knows no fleet, no laboratory and no sibling"},
		rule{[]string{"internal/fleet", "internal/cli", "cmd/tare"}, below(module+"internal/fleet/", "fake", "slurm", "kubernetes"), "only fleet/all names engines"})
	for _, driver := range drivers {
		siblings := slices.DeleteFunc(slices.Clone(drivers), func(other string) bool { return other == driver })
		all = append(all, rule{[]string{driver}, below(module, siblings...), "siblings never import each other"})
	}
	return all
}

func TestImportLaw(t *testing.T) {
	all := packages(t, "./cmd/...", "./internal/...")
	for _, rule := range law() {
		for _, room := range rule.rooms {
			found := false
			dir, deep := strings.CutSuffix(room, "/...")
			for pkg, imports := range all {
				if pkg == dir || deep && strings.HasPrefix(pkg, dir+"/") {
					found = true
					rule.check(t, pkg, imports)
				}
			}
			if !found {
				t.Errorf("the law names %s, which does not exist", room)
			}
		}
	}
}

func (r rule) check(t *testing.T, pkg string, imports []string) {
	t.Helper()
	for _, imported := range imports {
		if pkg == "internal/driver" && imported == module+"internal/sample" {
			continue // metrics that a driver's instances tell
		}
		for _, f := range r.forbid {
			if imported == f || strings.HasSuffix(f, "/") && strings.HasPrefix(imported, f) {
				t.Errorf("%s imports %s: %s", pkg, imported, r.because)
			}
		}
	}
}

// TestLawKnowsEveryFamily: a new directory of drivers stands under the law, too.
func TestLawKnowsEveryFamily(t *testing.T) {
	others := []string{"all", "bundle", "launch", "netpath", "drivertest"}
	entries, err := os.ReadDir(filepath.Join("..", "internal", "driver"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !slices.Contains(append(others, families...), e.Name()) {
			t.Errorf("internal/driver/%s is none of the families that the import law names", e.Name())
		}
	}
}

// TestExperimentLaw: the instrument knows no experiment, and experiments do not know
// each other, so that any of them can be copied and deleted as one folder.
func TestExperimentLaw(t *testing.T) {
	const seam = "internal/experiment"
	listed := []string{"cmd/tare", seam + "/all"}
	for pkg, all := range packages(t, "./cmd/...", "./internal/...", "./helpers/...", "./studies/...", "./published/...") {
		for _, imported := range all {
			of, ok := strings.CutPrefix(imported, module+seam+"/")
			if !ok || slices.Contains(listed, pkg) {
				continue
			}
			switch {
			case pkg == seam+"/experimenttest" || strings.HasPrefix(imported, module+pkg+"/"):
			case strings.HasPrefix(pkg, seam+"/"):
				t.Errorf("%s imports %s: experiments do not import each other; what two of them need belongs to stats, analysis, quantity or finding", pkg, of)
			default:
				t.Errorf("%s imports the experiment %s: the instrument knows none; only %s/all lists them", pkg, of, seam)
			}
		}
	}
}

// packages are the packages that patterns match, by their path in the module, with
// their direct imports, without their tests'.
func packages(t *testing.T, patterns ...string) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-f", `{{.ImportPath}} {{join .Imports " "}}`}, patterns...)...)
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, out)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		all[strings.TrimPrefix(fields[0], module)] = fields[1:]
	}
	return all
}

// TestClockLaw: only the loop stamps marks; a pure room or a driver that reads
// a clock would time itself.
func TestClockLaw(t *testing.T) {
	for _, room := range []string{"study", "schedule", "stats", "analysis", "report", "workload", "profile", "kerneltools/bootlog"} {
		out, err := exec.Command("grep", "-rnE", `time\.(Now|Since|Until)\(`, "--include=*.go", "--exclude=*_test.go", filepath.Join("..", "internal", room)).CombinedOutput()
		var exit *exec.ExitError
		if err == nil {
			t.Errorf("%s reads a clock:\n%s", room, out)
		} else if !errors.As(err, &exit) || exit.ExitCode() != 1 { // 1: nothing was found
			t.Errorf("%s could not be searched: %v: %s", room, err, out)
		}
	}
}
