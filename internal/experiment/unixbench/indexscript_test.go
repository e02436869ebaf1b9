package unixbench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarelab/tare/helpers"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/workload"
)

// TestIndexScript holds the script that images carry against the formula of tare index:
// the program runs for real, and what it printed is reduced by both.
func TestIndexScript(t *testing.T) {
	for _, tool := range []string{"awk", "nproc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("an image has it, this machine does not: ", err)
		}
	}
	dir := t.TempDir()
	if err := helpers.Extract(dir); err != nil {
		t.Fatal(err)
	}
	// Stands before each program and keeps what it prints, the passes of a test in order.
	shim := fmt.Sprintf("#!/bin/sh\nset -eu\ntest=$1\ncase $test in file-copy) test=$test-${2#--buffer=} ;; esac\n"+
		"for a; do case $a in --copies=*) copies=${a#--copies=} ;; esac; done\n%s/${0##*/} \"$@\" >%s/out\ncat %s/out\ncp %s/out \"%s/$test.$copies.$(ls %s | grep -c \"^$test[.]$copies[.]\")\"\n", dir, dir, dir, dir, dir, dir)
	shim = strings.Replace(shim, "grep -c", "grep -c --", 1)
	script := strings.ReplaceAll(workload.UnixIndexScript(), workload.UnixDir, filepath.Join(dir, "shims"))
	if err := os.Mkdir(filepath.Join(dir, "shims"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"shims/" + helpers.UnixGNU: shim, "shims/" + helpers.WhetstoneGNU: shim, "tare-index": script} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const passes = 4
	c := exec.CommandContext(t.Context(), "sh", filepath.Join(dir, "tare-index"), "0.02", fmt.Sprint(passes))
	c.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	tables := strings.Split(string(out), "System Benchmarks")[1:]
	copies := []string{"1"}
	if len(tables) == 2 {
		copies = append(copies, strings.Fields(strings.Split(string(out), "\n\n")[1])[0])
	}
	for i, table := range tables {
		want, err := tableOf(dir, copies[i], passes)
		if err != nil {
			t.Fatal(err)
		}
		checkTable(t, table, want)
	}
}

// tableOf is what tare index makes of the same passes.
func tableOf(dir, copies string, passes int) (indexTable, error) {
	var table indexTable
	for _, test := range workload.UnixTestNames() {
		w, err := workload.ByKind("unix-" + test)
		if err != nil {
			return table, err
		}
		scores := map[string][]float64{}
		for i := range passes {
			lines, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%s.%s.%d", test, copies, i)))
			if err != nil {
				return table, err
			}
			values, err := w.Parse(lines)
			if err != nil {
				return table, err
			}
			for _, v := range values {
				scores[v.Metric] = append(scores[v.Metric], v.Value)
			}
		}
		if n := len(scores[sample.UnixCPUScore]); n < passes {
			delete(scores, sample.UnixCPUScore) // the script takes the CPU's clock where all passes have it
		}
		row, _, err := rowOf(test, scores)
		if err != nil {
			return table, err
		}
		table.Rows = append(table.Rows, row)
	}
	return table, table.Total()
}

// checkTable looks for each row's figures in a printed table.
func checkTable(t *testing.T, printed string, want indexTable) {
	t.Helper()
	squeezed := strings.Join(strings.Fields(printed), " ")
	rows := []string{fmt.Sprintf("Index Score %.1f %.1f", want.UnixBench.Value, want.All.Value)}
	for _, r := range want.Rows {
		rows = append(rows, fmt.Sprintf("%s %s %.1f %.1f %.1f %.1f", r.label(), r.Unit, r.Baseline, r.Result, r.UnixBench, r.passes.All))
	}
	for _, row := range rows {
		if !strings.Contains(squeezed, row) {
			t.Errorf("%q is not in what tare-index printed:\n%s", row, printed)
		}
	}
}

// TestIndexScriptFails where a test does, and refuses what is no number.
func TestIndexScriptFails(t *testing.T) {
	script := strings.ReplaceAll(workload.UnixIndexScript(), workload.UnixDir, "/nowhere")
	for _, args := range [][]string{nil, {"x"}, {"1", "0"}, {""}} {
		out, err := exec.CommandContext(t.Context(), "sh", append([]string{"-c", script, "tare-index"}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "tare-index: ") {
			t.Errorf("%q: %v: %s", args, err, out)
		}
	}
}
