package workload

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sliceProgram is helpers/slice of this checkout.
func sliceProgram(t *testing.T) string {
	t.Helper()
	p, err := filepath.Abs("../../helpers/bin/linux_" + runtime.GOARCH + "/slice")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(p); err != nil {
		t.Fatalf("%v: run make -C helpers", err)
	}
	return p
}

// turnNames are the names of the turns of all workloads that take them.
func turnNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, w := range All() {
		if w.Kind() == "command" || w.Kind() == "image" {
			continue
		}
		job, err := Resolve(w.Kind(), nil, nil)
		if err == nil && job.Turns != nil && slices.Equal(job.Turns.Args, []string{slicePath}) {
			names = append(names, job.Turns.Name)
		}
	}
	return names
}

// TestSliceList holds the program's list against the workloads'.
func TestSliceList(t *testing.T) {
	out, err := exec.Command(sliceProgram(t), "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	program, here := strings.Fields(string(out)), turnNames(t)
	slices.Sort(program)
	slices.Sort(here)
	if !slices.Equal(program, here) {
		t.Errorf("the program has\n%q, the workloads\n%q", program, here)
	}
}

// sliceRun gives lines to the program and returns its answers, and what it left.
func sliceRun(t *testing.T, input string) (answers []string, stderr string, left []string, err error) {
	t.Helper()
	dir := t.TempDir()
	var out, errs bytes.Buffer
	cmd := exec.Command(sliceProgram(t), dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	err = cmd.Run()
	for s := bufio.NewScanner(&out); s.Scan(); {
		answers = append(answers, s.Text())
	}
	entries, readErr := os.ReadDir(dir)
	if readErr != nil {
		t.Fatal(readErr)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	return answers, errs.String(), left, err
}

// TestSliceTurns takes two turns of every workload: counts are positive, times
// rise, payload bytes are those of the declared iteration, nothing is left.
func TestSliceTurns(t *testing.T) {
	names := turnNames(t)
	if _, err := exec.LookPath("sort"); err != nil {
		t.Fatal("shell-1 needs sort, od, grep, tee and wc")
	}
	var input strings.Builder
	if os.Geteuid() != 0 {
		names = slices.DeleteFunc(names, func(name string) bool {
			return slices.ContainsFunc(sliceTests(), func(w sliceTest) bool { return w.name == name && w.root })
		})
	}
	for _, name := range names {
		fmt.Fprintf(&input, "%s 500\n%s 500\n", name, name)
	}
	answers, stderr, left, err := sliceRun(t, input.String())
	if err != nil || len(left) > 0 || len(answers) != 2*len(names) {
		t.Fatalf("%d answers to %d turns, %q left, %v: %s", len(answers), 2*len(names), left, err, stderr)
	}
	byName := map[string]int64{}
	for _, w := range sliceTests() {
		byName[w.name] = w.bytes
	}
	for i, answer := range answers {
		name := names[i/2]
		fields := strings.Fields(answer)
		if len(fields) < 4 {
			t.Errorf("%s: %q", name, answer)
			continue
		}
		var n [4]int64
		for k := range n {
			if n[k], err = strconv.ParseInt(fields[k], 10, 64); err != nil {
				t.Errorf("%s: %q: %v", name, answer, err)
			}
		}
		if n[0] < 1 || n[2] <= n[1] || n[3] < 0 {
			t.Errorf("%s: %q", name, answer)
		}
		if size := byName[name]; size > 0 { // the batch before BEGIN moved bytes, too, and does not count
			bytes, err := strconv.ParseInt(strings.TrimPrefix(fields[4], "bytes="), 10, 64)
			if err != nil || bytes%size != 0 || bytes <= n[0]*size || bytes > 3*n[0]*size {
				t.Errorf("%s: %q, want a multiple of %d, more than %d bytes (%v)", name, answer, size, n[0]*size, err)
			}
		}
	}
}

// TestSliceBadTurns: a wrong turn is answered, and the next one is worked.
func TestSliceBadTurns(t *testing.T) {
	for _, bad := range []string{"getpid", "getpid x", "getpid 99", "getpid 1e9", "nothing 1000", "", " ", "getpid 100000001"} {
		answers, stderr, left, err := sliceRun(t, bad+"\ngetpid 500\n")
		if err != nil || len(left) > 0 || len(answers) != 2 || !strings.HasPrefix(answers[0], "error: ") || strings.HasPrefix(answers[1], "error") {
			t.Errorf("%q: %q, %v, left %q, %s", bad, answers, err, left, stderr)
		}
	}
	for _, bad := range []string{"getpid 500", strings.Repeat("x", 300) + "\n"} {
		if answers, _, left, err := sliceRun(t, bad); err == nil || len(left) > 0 {
			t.Errorf("%.20q: accepted: %q, left %q", bad, answers, left)
		}
	}
}
