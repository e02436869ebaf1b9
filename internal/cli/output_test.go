package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"

	"github.com/tarelab/tare/internal/driver/all"
	experiments "github.com/tarelab/tare/internal/experiment/all"
	"github.com/tarelab/tare/internal/store"
)

// called runs a verb with a state directory, and gives its exit code and what it wrote.
func called(t *testing.T, state string, args ...string) (code int, out, diagnostics string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Main(Env{Args: append([]string{"--state", state}, args...), Stdout: &stdout, Stderr: &stderr, Drivers: all.Drivers, Experiments: experiments.Experiments(), Version: "test",
		Getenv: func(name string) string { return map[string]string{"HOME": state}[name] }})
	return code, stdout.String(), stderr.String()
}

// asJSON is what a verb prints as one document.
func asJSON[T any](t *testing.T, want int, state string, args ...string) (v T) {
	t.Helper()
	code, out, diagnostics := called(t, state, args...)
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != want {
		t.Fatalf("%q: exit code %d, want %d; %v:\n%s%s", args, code, want, err, out, diagnostics)
	}
	return v
}

// keptRun is a state directory with a copy of the planted run.
func keptRun(t *testing.T) (state, id string) {
	t.Helper()
	state, id = t.TempDir(), "20261123-203137-planted"
	if err := os.CopyFS(filepath.Join(state, "runs", id), os.DirFS(plantedRun)); err != nil {
		t.Fatal(err)
	}
	return state, id
}

// Two runs in formats of other tools, which were refused: benchstat compares the samples
// of both, and a monitoring system gets the changes.
func TestReportOfTwoRunsForOtherTools(t *testing.T) {
	_, text, _ := called(t, t.TempDir(), "report", plantedRun, fewRun, "--format", "benchstat")
	reader, samples := benchfmt.NewReader(strings.NewReader(text), "two"), map[string]int{}
	for reader.Scan() {
		switch r := reader.Result().(type) {
		case *benchfmt.Result:
			samples[r.GetConfig("run")]++
		case *benchfmt.SyntaxError:
			t.Error(r)
		}
	}
	if len(samples) != 2 {
		t.Errorf("samples by run: %v\n%s", samples, text)
	}
	code, text, diagnostics := called(t, t.TempDir(), "report", plantedRun, fewRun, "--format", "openmetrics")
	if code != exitOK || !strings.Contains(text, `tare_change_verdict{cell="native/work",`) || !strings.HasSuffix(text, "# EOF\n") {
		t.Errorf("exit code %d:\n%s%s", code, text, diagnostics)
	}
}

// A dash is standard output for each verb that writes a file; tare compare made a file of
// that name.
func TestOutputToStandardOutput(t *testing.T) {
	state, id := keptRun(t)
	t.Chdir(t.TempDir())
	if code, _, diagnostics := called(t, state, "history", "add", id); code != exitOK {
		t.Fatal(diagnostics)
	}
	for _, args := range [][]string{
		{"report", id}, {"gate", id, "--max", "work/native:2"}, {"history", "show"}, {"history", "check"},
		{"compare", "published:docker-on-loongson/loongson-2way", "published:docker-on-loongson/ryzen5"},
	} {
		_, plain, _ := called(t, state, args...)
		code, dashed, diagnostics := called(t, state, append(slices.Clone(args), "-o", "-")...)
		if code != exitOK || plain == "" || dashed != plain {
			t.Errorf("%q: exit code %d\n%s%s", args, code, dashed, diagnostics)
		}
		code, out, diagnostics := called(t, state, append(slices.Clone(args), "-o", "file")...)
		if data, err := os.ReadFile("file"); err != nil || len(data) == 0 || out != "" || code != exitOK {
			t.Errorf("%q: exit code %d, %v, %d bytes\n%s%s", args, code, err, len(data), out, diagnostics)
		}
		if code, _, diagnostics := called(t, state, append(slices.Clone(args), "-o", "none/file")...); code != exitUsage || !strings.Contains(diagnostics, "no directory none") {
			t.Errorf("%q: exit code %d: %s", args, code, diagnostics)
		}
	}
	for says, args := range map[string][]string{
		"two files":                       {"image", "build", "--arch", "amd64", "-o", "-"},
		"standard output has the report":  {"weigh", "--html", "-", "--", "true"},
		"--html -: standard output has t": {"resume", id, "--html", "-"},
	} {
		if code, out, diagnostics := called(t, state, args...); code != exitUsage || out != "" || !strings.Contains(diagnostics, says) {
			t.Errorf("%q: exit code %d, want %q: %s%s", args, code, says, out, diagnostics)
		}
	}
	if _, err := os.Stat("-"); err == nil {
		t.Error("a file has the name -")
	}
}

// --json takes the words of Go's truth values, on every verb that has it.
func TestJSONIsSwitched(t *testing.T) {
	state, id := keptRun(t)
	for _, args := range [][]string{{"report", id}, {"runs"}, {"verify", id}, {"history", "show"}} {
		called(t, state, "history", "add", id)
		for value, on := range map[string]bool{"": true, "=true": true, "=1": true, "=t": true, "=false": false, "=0": false} {
			_, out, _ := called(t, state, append(slices.Clone(args), "--json"+value)...)
			if json.Valid([]byte(out)) != on {
				t.Errorf("%q --json%s: JSON must be %t:\n%.200s", args, value, on, out)
			}
			if wantsJSON([]string{"--json" + value}) != on {
				t.Errorf("errors of --json%s: JSON must be %t", value, on)
			}
		}
	}
	if code, _, diagnostics := called(t, state, "report", id, "--json=maybe"); code != exitUsage || !strings.Contains(diagnostics, `--json "maybe": give true or false`) {
		t.Errorf("exit code %d: %s", code, diagnostics)
	}
}

// Verbs that list something, or print facts, have both formats, and refuse others before
// they do anything.
func TestDataAsJSON(t *testing.T) {
	state, id := keptRun(t)
	if all := asJSON[[]listedStudy](t, exitOK, state, "studies", "--json"); len(all) < 5 || all[0].Question == "" {
		t.Errorf("%+v", all)
	}
	if code, _, diagnostics := called(t, state, "studies", "survey", "--json"); code != exitUsage || !strings.Contains(diagnostics, "a study is YAML") {
		t.Errorf("exit code %d: %s", code, diagnostics)
	}
	if v := asJSON[verified](t, exitOK, state, "verify", id, "--format", "json"); v.Run != id || v.Records != v.Trials || v.Records == 0 || v.Damaged == nil {
		t.Errorf("%+v", v)
	}
	if swept := asJSON[[]string](t, exitOK, state, "sweep", "--json"); swept == nil {
		t.Error("null instead of an empty list")
	}
	for _, want := range []int{2, 0} {
		if a := asJSON[addedToHistory](t, exitOK, state, "history", "add", id, "--json"); a.Added != want || a.Of != 2 || a.File == "" {
			t.Errorf("%+v, want %d of 2", a, want)
		}
	}
	if code, _, diagnostics := called(t, state, "runs", "prune", "--keep", "0", "--yes", "--format", "jsn"); code != exitUsage || !strings.Contains(diagnostics, `did you mean "json"`) {
		t.Errorf("exit code %d: %s", code, diagnostics)
	}
	for _, args := range [][]string{nil, {"--yes"}} {
		if old := asJSON[[]store.Summary](t, exitOK, state, append([]string{"runs", "prune", "--keep", "0", "--json"}, args...)...); len(old) != 1 || old[0].ID != id {
			t.Errorf("%q: %+v", args, old)
		}
	}
	for _, args := range [][]string{{"runs"}, {"runs", "prune", "--keep", "0"}} {
		if left := asJSON[[]store.Summary](t, exitOK, state, append(args, "--json")...); left == nil || len(left) > 0 {
			t.Errorf("%q: %+v, want an empty list", args, left)
		}
	}
}

// A damaged run is told in JSON, too, and its exit code stays.
func TestVerifyOfADamagedRunAsJSON(t *testing.T) {
	state, id := keptRun(t)
	file := filepath.Join(state, "runs", id, "records.jsonl")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append([]byte("x"), data...), 0o600); err != nil {
		t.Fatal(err)
	}
	if v := asJSON[verified](t, exitLaboratory, state, "verify", id, "--json"); len(v.Damaged) == 0 {
		t.Errorf("%+v", v)
	}
}

// A mistyped name is answered with the nearest one.
func TestMistypedNames(t *testing.T) {
	state, id := keptRun(t)
	called(t, state, "history", "add", id)
	for near, args := range map[string][]string{
		`did you mean "html"?`:               {"report", id, "--format", "htm"},
		`did you mean "junit"?`:              {"gate", id, "--format", "junt"},
		`did you mean "md"?`:                 {"history", "show", "--format", "mdd"},
		`did you mean "` + id + `"?`:         {"report", "20261123-203137-plantde"},
		`did you mean "last"?`:               {"report", "lats"},
		`did you mean "work/native"?`:        {"history", "show", "wrk/native"},
		`did you mean "slurm"?`:              {"fleet", "run", "survey", "--nodes", "1", "--engine", "slrum"},
		`did you mean "threads"?`:            {"run", "./testdata/choose.yaml", "--set", "thread=1"},
		`did you mean "memory"?`:             {"run", "./testdata/choose.yaml", "--set", "memry=1"},
		`did you mean "docker-on-loongson"?`: {"studies", "docker-on-longson"},
	} {
		if code, _, diagnostics := called(t, state, args...); code != exitUsage || !strings.Contains(diagnostics, near) {
			t.Errorf("%q: exit code %d, want %s: %s", args, code, near, diagnostics)
		}
	}
}

// A fleet takes files by absolute paths: a relative one is another file on each machine.
func TestFleetWantsAbsolutePaths(t *testing.T) {
	for _, flag := range []string{"--workbench", "--guest-rootfs", "--unixbench"} {
		want := "tare: " + flag + " ./here: give an absolute path"
		if code, _, diagnostics := called(t, t.TempDir(), "fleet", "run", "docker-on-loongson", "--engine", "slurm", "--nodes", "1", flag, "./here"); code != exitUsage || !strings.HasPrefix(diagnostics, want) {
			t.Errorf("exit code %d, want %s: %s", code, want, diagnostics)
		}
	}
}

// Verbs that keep, move and remove runs, and those of images and set-up, print what they
// did as JSON, and nothing else on standard output.
func TestDoneAsJSON(t *testing.T) {
	state, id := keptRun(t)
	file := filepath.Join(t.TempDir(), "run.tar.gz")
	if w := asJSON[written](t, exitOK, state, "runs", "export", id, "-o", file, "--json"); w.File != file {
		t.Errorf("%+v", w)
	}
	if code, out, _ := called(t, state, "runs", "export", id, "-o", "-", "--json"); code != exitUsage || out != "" {
		t.Errorf("export to standard output as JSON: exit code %d, %d bytes", code, len(out))
	}
	for _, want := range []int{1, 0} {
		if added := asJSON[[]string](t, exitOK, state, "fleet", "add", "lab", file, "--json"); len(added) != want {
			t.Errorf("added %q, want %d", added, want)
		}
	}
	if gone := asJSON[[]string](t, exitOK, state, "runs", "rm", id, "--json"); len(gone) != 1 {
		t.Errorf("removed %q", gone)
	}
	if there := asJSON[[]string](t, exitUsage, state, "runs", "import", file, "none", "--json"); len(there) != 1 {
		t.Errorf("imported %q, want the first of two", there)
	}
	found := asJSON[setUp](t, exitOK, state, "setup", "--dry-run", "--on", "runc", "--json")
	if len(found.Parts) != 1 || found.Parts[0].Name != "runc" || found.Commands == nil || found.Installed {
		t.Errorf("%+v", found)
	}
}

// A flag of an earlier version is read as what it is called now. The note on that is not
// on standard output, which has the report.
func TestOldNames(t *testing.T) {
	for note, args := range map[string][]string{
		"--instances":      {"weigh", "--copies", "0", "--json", "--", "true"},
		"--workloads":      {"run", "survey", "--tests", "none"},
		"--cpuset first-N": {"run", "survey", "--cpus", "0"},
	} {
		code, out, diagnostics := called(t, t.TempDir(), args...)
		if code != exitUsage || out != "" || !strings.Contains(diagnostics, "has been deprecated") || !strings.Contains(diagnostics, note) {
			t.Errorf("%q: exit code %d, %q: %s", args, code, out, diagnostics)
		}
	}
}
