package unixbench

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// standIn makes a directory whose programs behave as those of a built UnixBench.
func standIn(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	for _, dir := range []string{"pgms", "testdir"} {
		if err := os.Mkdir(filepath.Join(home, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"dhry2reg", "syscall", "fstime", "looper"} {
		out, err := exec.Command("cc", "-O2", "-o", filepath.Join(home, "pgms", program), "../../workload/testdata/standin.c").CombinedOutput()
		if err != nil {
			t.Fatalf("compile standin.c: %v: %s", err, out)
		}
	}
	for name, text := range map[string]string{
		"pgms/multi.sh": "#! /bin/sh\n/bin/sh \"$UB_BINDIR/tst.sh\"\n", "pgms/tst.sh": "sort > sorted.$$ < sort.src\nrm sorted.$$\n", "testdir/sort.src": "b\na\n",
	} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

// A user's own UnixBench runs in the target, and stands next to ours in what is printed,
// in the JSON and in the report.
func TestIndexNextToUnixBench(t *testing.T) {
	home, state := standIn(t), t.TempDir()
	code, stdout, stderr := runTare(t, state, "index", "--workloads", "syscall,file-copy-256,shell-1", "--seconds", "0.2", "--copies", "2", "--passes", "2", "--on", "native", "--unixbench", home)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{
		"1 copy on native: your UnixBench", "2 copies on native: your UnixBench", "ours by it, CPU time", "1 copy on native next to your UnixBench, by CPU time:",
		"The tests are dynamic programs", "-linux-gnu", "They ran with GNU C Library (",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	var got struct {
		Sections []struct {
			ID     string
			Data   indexClaims
			Tables []struct{ Title string }
		}
	}
	code, stdout, stderr = runTare(t, state, "report", "last", "--format", "json")
	if err := json.Unmarshal([]byte(stdout), &got); code != 0 || err != nil || len(got.Sections) != 1 {
		t.Fatalf("exit code %d, %v: %s", code, err, stderr)
	}
	c := got.Sections[0].Data
	if c.Programs.Build != "dynamic" || !strings.HasPrefix(c.Programs.Library, "GNU C Library (") || !strings.Contains(c.Programs.Compiler, "-O2") {
		t.Errorf("programs %+v", c.Programs)
	}
	for _, table := range c.Tables {
		for _, r := range table.Rows {
			if r.NextTo == nil || r.NextTo.Result <= 0 || r.NextTo.Ratio <= 0 || r.NextTo.Trials != 2 {
				t.Errorf("%d copies, %s: %+v", table.Copies, r.Test, r.NextTo)
			}
		}
	}
	code, stdout, stderr = runTare(t, state, "report", "last", "--all")
	if code != 0 || !strings.Contains(strings.Join(strings.Fields(stdout), " "), "Your UnixBench ran unchanged") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

// The study takes it by --set, in every target and number of containers.
func TestStudyNextToUnixBench(t *testing.T) {
	home, state := standIn(t), t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(here, home)
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := runTare(t, state, "run", name, "--quick", "--workloads", "syscall", "--on", "native", "--environments", "allcpu-1copy", "--instances", "1,2", "--set", "unixbench="+relative, "--all")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{"native, all CPUs, one copy in each container: your UnixBench", "host, all CPUs, one copy in each container: your UnixBench"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}

// A directory that is no built UnixBench is refused before anything runs, by what is
// wrong with it.
func TestUnixBenchThatIsRefused(t *testing.T) {
	for what, c := range map[string]struct {
		spoil func(home string) error
		want  string
	}{
		"missing":     {func(home string) error { return os.Remove(filepath.Join(home, "pgms", "syscall")) }, "pgms/syscall: it does not exist: is "},
		"no tests":    {os.RemoveAll, "no such file or directory"},
		"a link":      {func(home string) error { return relink(filepath.Join(home, "pgms", "syscall")) }, "pgms/syscall is a symbolic link"},
		"a linked in": {func(home string) error { return relink(filepath.Join(home, "pgms")) }, "pgms is a symbolic link"},
		"not run": {func(home string) error {
			return os.WriteFile(filepath.Join(home, "pgms", "syscall"), []byte("\x7fELF cut"), 0o755)
		}, "pgms/syscall"},
	} {
		home := standIn(t)
		if err := c.spoil(home); err != nil {
			t.Fatal(err)
		}
		code, _, stderr := runTare(t, t.TempDir(), "index", "--workloads", "syscall", "--seconds", "0.1", "--passes", "1", "--copies", "1", "--unixbench", home)
		if code != 2 || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d, %s", what, code, stderr)
		}
	}
}

// relink moves a file away and leaves a link to it.
func relink(file string) error {
	if err := os.Rename(file, file+"-moved"); err != nil {
		return err
	}
	return os.Symlink(file+"-moved", file)
}

func TestNextToVerdicts(t *testing.T) {
	for _, c := range []struct {
		ratio  float64
		span   stats.Interval
		trials int
		want   string
	}{
		{1, stats.Interval{Low: 0.97, High: 1.04}, 3, "within 5 %"},
		{0.96, stats.Interval{Low: 0.93, High: 0.99}, 3, "open"},
		{1.06, stats.Interval{Low: 1.02, High: 1.10}, 3, "open"},
		{1, stats.Interval{Low: 0.5, High: 2}, 3, "open"},
		{1, stats.Interval{}, 1, "open"},
		{0.75, stats.Interval{Low: 0.73, High: 0.77}, 3, "another scale: divide ours by 0.750"},
		{8.3, stats.Interval{Low: 8, High: 9}, 3, "another scale: divide ours by 8.300"},
	} {
		n := nextTo{Ratio: c.ratio, Interval: c.span, Trials: c.trials}
		if got := n.Verdict(); got != c.want {
			t.Errorf("%+v: %q, want %q", c, got, c.want)
		}
	}
	n, err := nextToOf([]float64{100, 90, 80}, []float64{1, 1.1, 1.21}, 50)
	if err != nil || n.Result < 474 || n.Result > 475 || n.Ratio < 1.0999 || n.Ratio > 1.1001 {
		t.Errorf("%+v, %v", n, err)
	}
	if n, err := nextToOf(nil, nil, 50); n != nil || err != nil {
		t.Errorf("%+v, %v", n, err)
	}
	if _, err := nextToOf([]float64{-1}, []float64{1}, 50); err == nil {
		t.Error("a score below 0 passed")
	}
	if got := besideCells([]sample.Record{{Cell: "a", Values: map[string][]float64{sample.UnixBenchScore: {1, 3}, sample.UnixBenchRatio: {1, 2}}}, {Cell: "b"}}); len(got) != 1 || got["a"].scores[0] != 2 || got["a"].ratios[0] != 1.5 {
		t.Errorf("%+v", got)
	}
}

// Reports say which programs ran: scores of static and dynamic ones are not alike.
func TestProgramsOfARun(t *testing.T) {
	unix := study.Workload{Name: "execl", Kind: "unix-execl"}
	const flags = "unix: -static -O2\nunix-gnu: -pie -O2"
	for _, c := range []struct {
		st   study.Study
		want string
	}{
		{study.Study{Workloads: []study.Workload{unix}}, "static clang with -static -O2"},
		{study.Study{Workloads: []study.Workload{unix}, Params: map[string]string{"build": "dynamic"}}, "dynamic clang with -pie -O2"},
		{study.Study{Workloads: []study.Workload{unix}, Environments: []study.Environment{{}, {Params: map[string]string{"build": "dynamic"}}}}, "dynamic and static clang with -pie -O2"},
		{study.Study{Workloads: []study.Workload{{Name: "x", Kind: "start"}}}, " clang with -pie -O2"},
	} {
		p := programsOf(store.Manifest{Study: c.st, Compiler: "clang", CompilerFlags: flags})
		if got := p.Build + " " + p.Compiler; got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	a, b := side{Name: "a", Build: "static"}, side{Name: "b", Build: "dynamic"}
	if got := strings.Join(conditionWarnings(a, b), "\n"); !strings.Contains(got, "a ran static programs and b dynamic ones") {
		t.Errorf("%q", got)
	}
	libc := func(name, interpreter, digest string) side {
		return side{Name: name, Library: "GNU C Library 2.36", Digests: map[string]string{interpreter: "sha256:0", "libc.so.6": digest}}
	}
	one, other := libc("a", "ld-linux-x86-64.so.2", "sha256:1"), libc("b", "ld-linux-x86-64.so.2", "sha256:2")
	if got := strings.Join(conditionWarnings(one, other), "\n"); !strings.Contains(got, "a ran with GNU C Library 2.36 (ld-linux-x86-64.so.2 sha256:0, libc.so.6 sha256:1) and b with") {
		t.Errorf("other bits: %q", got)
	}
	newer := side{Name: "b", Library: "GNU C Library 2.41"}
	if got := strings.Join(conditionWarnings(one, newer), "\n"); !strings.Contains(got, "and b with GNU C Library 2.41: execl") {
		t.Errorf("another release: %q", got)
	}
	for what, b := range map[string]side{"the same": one, "another architecture": libc("b", "ld.so.1", "sha256:3"), "an older run": {Name: "b", Library: one.Library}, "static": {Name: "b"}} {
		if got := conditionWarnings(one, b); len(got) > 0 {
			t.Errorf("%s: %q", what, got)
		}
	}
	ran := programsOf(store.Manifest{CLibrary: "GNU C Library 2.36", LoaderDigests: map[string]string{"libc.so.6": "sha256:0123456789abcdef"},
		Study: study.Study{Workloads: []study.Workload{unix}, Params: map[string]string{"build": "dynamic"}}})
	if got := ran.Note(); !strings.Contains(got, "They ran with GNU C Library 2.36 (libc.so.6 sha256:0123456789ab); the scripts") {
		t.Errorf("%q", got)
	}
	if got := strings.Join(conditionWarnings(a, side{Name: "p", Published: true}), "\n"); !strings.Contains(got, "a ran static programs, the published scores are of dynamic ones") {
		t.Errorf("%q", got)
	}
}
