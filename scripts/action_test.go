package scripts

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	goyaml "github.com/goccy/go-yaml"
)

// action is action.yml, as far as a runner reads it.
type action struct {
	Inputs map[string]struct {
		Default string `yaml:"default"`
	} `yaml:"inputs"`
	Outputs map[string]struct {
		Value string `yaml:"value"`
	} `yaml:"outputs"`
	Runs struct {
		Using string `yaml:"using"`
		Steps []step `yaml:"steps"`
	} `yaml:"runs"`
}

type step struct {
	ID    string            `yaml:"id"`
	If    string            `yaml:"if"`
	Shell string            `yaml:"shell"`
	Env   map[string]string `yaml:"env"`
	Run   string            `yaml:"run"`
}

func readAction(t *testing.T) action {
	t.Helper()
	data, err := os.ReadFile("../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var a action
	if err := goyaml.Unmarshal(data, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestActionScripts: no expression of GitHub's stands in a script, where a value could
// become a command; what the expressions name is there.
func TestActionScripts(t *testing.T) {
	a := readAction(t)
	if a.Runs.Using != "composite" || len(a.Runs.Steps) == 0 {
		t.Fatalf("it is no composite action: %+v", a.Runs)
	}
	ids := map[string]bool{}
	for _, s := range a.Runs.Steps {
		if strings.Contains(s.Run, "${{") || s.Shell != "bash" {
			t.Errorf("step %s: an expression in its script, or its shell is %q", s.ID, s.Shell)
		}
		ids[s.ID] = true
		for name, value := range s.Env {
			from := expression.FindStringSubmatch(value)
			if from == nil || from[1] == "inputs" && !known(a, from[2]) || from[1] == "steps" && !ids[from[2]] {
				t.Errorf("step %s: %s is %q, which names nothing", s.ID, name, value)
			}
		}
	}
}

// Each output is one of a step.
func TestActionOutputs(t *testing.T) {
	a := readAction(t)
	for name, o := range a.Outputs {
		from := expression.FindStringSubmatch(o.Value)
		if from == nil || from[1] != "steps" || !slices.ContainsFunc(a.Runs.Steps, func(s step) bool { return s.ID == from[2] && strings.Contains(s.Run, from[3]+"=") }) {
			t.Errorf("output %s is %q, which names nothing", name, o.Value)
		}
	}
}

func known(a action, input string) bool { _, ok := a.Inputs[input]; return ok }

// expression is an input, or an output of an earlier step.
var expression = regexp.MustCompile(`^\$\{\{ (inputs|steps)\.(\w+)(?:\.outputs\.(\w+))? \}\}$`)

// runner runs the action's steps as GitHub's runner does: bash -eo pipefail, outputs by
// a file, after a failure only the steps with always().
type runner struct {
	t       *testing.T
	dir     string
	env     []string
	outputs map[string]string // STEP.NAME
	said    bytes.Buffer
}

func newRunner(t *testing.T, env ...string) *runner {
	return &runner{t: t, dir: t.TempDir(), env: env, outputs: map[string]string{}}
}

func (r *runner) run(inputs map[string]string) (code int) {
	r.t.Helper()
	a := readAction(r.t)
	for _, s := range a.Runs.Steps {
		if code != 0 && !strings.Contains(s.If, "always()") {
			continue
		}
		output := filepath.Join(r.dir, "output")
		c := exec.CommandContext(r.t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", s.Run)
		c.Dir = r.dir
		c.Env = append(os.Environ(), "RUNNER_TEMP="+r.dir, "GITHUB_OUTPUT="+output, "GITHUB_STEP_SUMMARY="+filepath.Join(r.dir, "summary.md"))
		c.Env = append(c.Env, r.env...)
		for name, value := range s.Env {
			c.Env = append(c.Env, name+"="+r.value(a, inputs, value))
		}
		c.Stdout, c.Stderr = &r.said, &r.said
		err := c.Run()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			code = max(code, exit.ExitCode())
		} else if err != nil {
			r.t.Fatal(err)
		}
		r.take(s.ID, output)
	}
	return code
}

func (r *runner) value(a action, inputs map[string]string, text string) string {
	from := expression.FindStringSubmatch(text)
	if from[1] == "steps" {
		return r.outputs[from[2]+"."+from[3]]
	}
	if value, given := inputs[from[2]]; given {
		return value
	}
	return a.Inputs[from[2]].Default
}

func (r *runner) take(id, file string) {
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err = errors.Join(err, os.Remove(file)); err != nil {
		r.t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		name, value, _ := strings.Cut(line, "=")
		r.outputs[id+"."+name] = value
	}
}

const actionStudy = `id: action
targets: [host]
aa: false
workloads: [{name: nap, kind: command, args: [sleep, "0.01"]}]
blocks: 6
`

// TestAction runs the action's steps on a real tare: a limit that is met, one that is
// broken, a command that fails, and a release that has to be fetched.
func TestAction(t *testing.T) {
	if testing.Short() {
		t.Skip("measures")
	}
	if os.Geteuid() != 0 {
		t.Fatal("the action measures: run this as root")
	}
	release := t.TempDir()
	tare := filepath.Join(release, "tare")
	output(t, append(os.Environ(), "CGO_ENABLED=0"), "go", "build", "-trimpath", "-o", tare, "../cmd/tare")
	study := filepath.Join(t.TempDir(), "action.yaml")
	if err := os.WriteFile(study, []byte(actionStudy), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		inputs  map[string]string
		code    int
		says    string
		report  bool
		verdict string
	}{
		"met":     {map[string]string{"command": "run " + study, "max": "nap/host:wall:20s\n\nnap/host:wall:30s"}, 0, "::notice", true, "met"},
		"broken":  {map[string]string{"command": "run " + study, "max": "nap/host:wall:1us"}, 6, "::error", true, "broken"},
		"least":   {map[string]string{"command": "run " + study, "min": "nap/host:wall:1us"}, 0, "::notice", true, "met"},
		"too low": {map[string]string{"command": "run " + study, "min": "nap/host:wall:20s"}, 6, "::error", true, "broken"},
		"nothing": {map[string]string{"command": "run " + study}, 0, "", true, "met"},
		"open":    {map[string]string{"command": "run " + study + " --blocks 2", "max": "nap/host:wall:20s"}, 7, "::error", true, "open"},
		"passes":  {map[string]string{"command": "run " + study + " --blocks 2", "max": "nap/host:wall:20s", "open": "pass"}, 0, "", true, "open"},
		"usage":   {map[string]string{"command": "run --nonsense"}, 2, "unknown flag", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.inputs["binary"] = tare
			r := newRunner(t)
			if code := r.run(c.inputs); code != c.code || !strings.Contains(r.said.String(), c.says) {
				t.Errorf("exit code %d, want %d with %q; it said\n%s", code, c.code, c.says, r.said.String())
			}
			_, page := os.Stat(filepath.Join(r.dir, "tare-report.html"))
			summary, _ := os.ReadFile(filepath.Join(r.dir, "summary.md"))
			if (page == nil) != c.report || (len(summary) > 0) != c.report {
				t.Errorf("report: %v, summary %q; want both: %v", page, summary, c.report)
			}
			if c.report && r.outputs["report.report"] != "tare-report.html" {
				t.Errorf("outputs %v", r.outputs)
			}
			if verdict := r.outputs["gate.verdict"]; verdict != c.verdict {
				t.Errorf("the verdict is %q, want %q", verdict, c.verdict)
			}
		})
	}
	t.Run("fetched", func(t *testing.T) { fetched(t, release, tare) })
}

// fetched takes the release from files in place of the network, and refuses one whose
// digest is another.
func fetched(t *testing.T, release, tare string) {
	name := "tare_v1.0.0_linux_" + runtime.GOARCH
	dir := filepath.Join(release, "download", "v1.0.0")
	if err := os.MkdirAll(filepath.Join(release, name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.Link(tare, filepath.Join(release, name, "tare"))); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, name+".tar.gz")
	output(t, nil, "tar", "-C", release, "-czf", archive, name)
	data, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	right, wrong := fmt.Sprintf("%x", sha256.Sum256(data)), strings.Repeat("0", 64)
	for _, c := range []struct {
		sum, pinned string
		want        int
	}{{right, "", 0}, {wrong, "", 1}, {right, right, 0}, {right, "sha256:" + right, 0}, {right, wrong, 1}} {
		if err := os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(c.sum+"  "+name+".tar.gz\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		r := newRunner(t, "TARE_RELEASES=file://"+release)
		if code := r.run(map[string]string{"version": "v1.0.0", "sha256": c.pinned, "command": "version"}); code != c.want {
			t.Errorf("%+v: exit code %d; it said\n%s", c, code, r.said.String())
		}
		if fetched := r.outputs["get.tare"]; (fetched != "") != (c.want == 0) {
			t.Errorf("%+v: tare is %q", c, fetched)
		}
	}
}
