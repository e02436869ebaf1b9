package unixbench

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/cli"
	"github.com/tarelab/tare/internal/cli/clitest"
	"github.com/tarelab/tare/internal/driver/all"
	"github.com/tarelab/tare/internal/experiment"
)

func TestMain(m *testing.M) {
	clitest.Main(m, cli.Env{Drivers: all.Drivers, Experiments: experiment.List{Experiment()}}, nil)
}

func TestCommandLine(t *testing.T) { clitest.Run(t) }

// runTare runs the command line in a state directory of its own.
func runTare(t *testing.T, state string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("the host is measured by chroot: run this as root")
	}
	var out, diagnostics bytes.Buffer
	env := cli.Env{Args: args, Stdout: &out, Stderr: &diagnostics, Drivers: all.Drivers, Version: "test", Experiments: experiment.List{Experiment()},
		Getenv: func(name string) string { return map[string]string{"TARE_STATE": state}[name] }}
	code = cli.Main(env)
	return code, out.String(), diagnostics.String()
}

func TestIndex(t *testing.T) {
	state := t.TempDir()
	code, stdout, stderr := runTare(t, state, "index", "--workloads", "whetstone,syscall", "--seconds", "0.1", "--copies", "2", "--passes", "3")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{
		"1 copy on host", "2 copies on host", "BASELINE         RESULT      INDEX   all passes, 95 % interval",
		"MWIPS         55.0", "lps      15000.0", "Index Score",
		"INDEX as UnixBench 5.1.3 has it: 1 of 3 passes, the worst, left out; over syscall, whetstone", "by CPU time",
		"whetstone is of the variant as-compiled", "The tests are dynamic programs",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	code, stdout, stderr = runTare(t, t.TempDir(), "index", "--workloads", "whetstone", "--seconds", "0.1", "--copies", "1", "--passes", "1", "--static")
	if code != 0 || !strings.Contains(stdout, "whetstone is of the variant kept") || !strings.Contains(stdout, "The tests are static programs") || !strings.Contains(stdout, "-static -O2") {
		t.Errorf("--static: exit code %d: %s%s", code, stdout, stderr)
	}
	if code, stdout, _ := runTare(t, state, "runs"); code != 0 || !strings.Contains(stdout, "-index") {
		t.Errorf("the run is not kept: %s", stdout)
	}
	// The report of the run has the same tables.
	if code, stdout, stderr := runTare(t, state, "report", "last", "--all"); code != 0 || !strings.Contains(stdout, "2 copies on host") || !strings.Contains(stdout, "Index Score") || !strings.Contains(stdout, "1 of 3 passes, the worst, left out") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	var got struct {
		Sections []struct {
			ID   string
			Data indexClaims
		}
	}
	code, stdout, stderr = runTare(t, state, "report", "last", "--format", "json")
	if err := json.Unmarshal([]byte(stdout), &got); code != 0 || err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, stderr)
	}
	if len(got.Sections) != 1 || got.Sections[0].ID != indexID {
		t.Fatalf("sections %+v", got.Sections)
	}
	if tables := got.Sections[0].Data.Tables; len(tables) != 2 || tables[1].Copies != 2 || len(tables[1].Rows) != 2 || tables[1].UnixBench.Value <= 0 {
		t.Errorf("%+v", tables)
	}
}

func TestIndexJSON(t *testing.T) {
	code, stdout, stderr := runTare(t, t.TempDir(), "index", "--workloads", "syscall", "--seconds", "0.1", "--copies", "1", "--passes", "2", "--on", "native", "--json")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var got shownIndex
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Tables) != 1 || got.Tables[0].Copies != 1 || got.Tables[0].Target != "native" || len(got.Tables[0].Rows) != 1 {
		t.Fatalf("%+v", got.Tables)
	}
	r := got.Tables[0].Rows[0]
	if r.Passes != 2 || r.All <= 0 || r.Result != r.UnixBench*r.Baseline/10 || got.Tables[0].All.Value != r.All {
		t.Errorf("%+v", r)
	}
}

func TestIndexRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--workloads execll": `did you mean "execl"?`,
		"--copies 0":         "--copies 0: must be at least 1",
		"--copies 100000":    "outside 1 to 4096",
		"--passes 0":         "--passes 0",
		"--seconds NaN":      "between 0.01 and 3600",
		"--seconds 0":        "between 0.01 and 3600",
		"--on nativ":         `did you mean "native"?`,
		"--seconds 1 more":   "usage: tare index",
	} {
		code, _, stderr := runTare(t, t.TempDir(), append([]string{"index"}, strings.Fields(args)...)...)
		if code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s", args, code, stderr)
		}
	}
	for _, verb := range [][]string{{"index"}, {"run", name}} { // --unixbench "$UNSET"
		code, _, stderr := runTare(t, t.TempDir(), append(verb, "--unixbench", "")...)
		if code != 2 || !strings.Contains(stderr, "--unixbench names no directory") {
			t.Errorf("%q: exit code %d, %s", verb, code, stderr)
		}
	}
}
