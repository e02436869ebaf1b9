package cli

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver/all"
)

// The recorded runs: in planted, native's payload prints a tenth more than host's and
// native/spawn's; few is the same with 3 blocks. Both have limits of +5 % on both.
const (
	plantedRun = "testdata/runs/planted"
	fewRun     = "testdata/runs/few"
)

// gated runs tare gate and gives its exit code and what it wrote.
func gated(t *testing.T, args ...string) (code int, out, diagnostics string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	state := t.TempDir()
	code = Main(Env{Args: append([]string{"--state", state, "gate"}, args...), Stdout: &stdout, Stderr: &stderr, Drivers: all.Drivers, Version: "test",
		Getenv: func(name string) string { return map[string]string{"HOME": state}[name] }})
	return code, stdout.String(), stderr.String()
}

// A planted slowdown is broken, none is met, and too few blocks are open.
func TestGateExitCodes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(file, []byte("limits:\n  - {cell: work/native/spawn, at-most: 1.05, at-least: 0.95}\n  - {cell: work/native:toll, at-most: 20000 s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"the study's own":           {[]string{plantedRun}, exitBroken, "broken         work/native toll: 1.1001 [1.0995, 1.1005] × host, from 12 blocks"},
		"none":                      {[]string{plantedRun, "--max", "work/native/spawn:+5%"}, exitOK, "met            work/native/spawn toll: 1.0003"},
		"planted":                   {[]string{plantedRun, "--max", "work/*:toll:1.05"}, exitBroken, "broken         work/native toll"},
		"planted, but allowed":      {[]string{plantedRun, "--max", "work/native:+15 %"}, exitOK, "met"},
		"at least":                  {[]string{plantedRun, "--min", "work/native:1.15"}, exitBroken, "at least 1.15"},
		"a file":                    {[]string{plantedRun, "--limits", file}, exitOK, "met            work/native toll: 10998"},
		"too few blocks":            {[]string{fewRun, "--max", "work/native/spawn:+5%"}, exitOpen, "from 3 blocks: 6 are needed"},
		"too few blocks, which may": {[]string{fewRun, "--max", "work/native/spawn:+5%", "--open", "pass"}, exitOK, "open"},
		"another unit":              {[]string{plantedRun, "--max", "work/native:toll:3MiB"}, exitNotComparable, "toll is in s"},
		"no such cell":              {[]string{plantedRun, "--max", "work/nativ:3"}, exitNotComparable, "The run has no such cell; did you mean \"work/native\"? it has work/host, work/native, work/native/spawn."},
		"two runs":                  {[]string{plantedRun, fewRun, "--max", "work/native/spawn:+5%"}, exitOpen, "open"},
		"a baseline":                {[]string{plantedRun, "--max", "work/native:+5 %", "--baseline", plantedRun}, exitOK, "× run 20261123-203137-planted"},
	} {
		if code, out, diagnostics := gated(t, c.args...); code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%s: exit code %d, want %d with %q:\n%s%s", name, code, c.code, c.says, out, diagnostics)
		}
	}
	if _, out, _ := gated(t, plantedRun, "--max", "work/native:+5 %", "--baseline", plantedRun); !strings.Contains(out, "the weaker way") {
		t.Errorf("a gate against a stored run is not called weaker:\n%s", out)
	}
	for name, text := range map[string]string{
		".bad": "limits: [{cell: a/b, at-most: 2}, {cell: ab, at-most: 2}]", ".against": "limits: [{cell: work/native, at-most: 2, against: baseline}]",
	} {
		if err := os.WriteFile(file+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for says, args := range map[string][]string{
		"gate takes a run":             nil,
		"take one of text, md, junit":  {plantedRun, "--format", "sarif"},
		"it is fail or pass":           {plantedRun, "--open", "maybe"},
		"is not a limit: write":        {plantedRun, "--max", "start"},
		`"3 apples": "apples"`:         {plantedRun, "--max", "start/x:3 apples"},
		"limits[1].cell":               {plantedRun, "--limits", file + ".bad"},
		"against a baseline, and none": {plantedRun, "--limits", file + ".against"},
	} {
		if code, _, diagnostics := gated(t, args...); code != exitUsage || !strings.Contains(diagnostics, says) {
			t.Errorf("%q: exit code %d, want %d with %q: %s", args, code, exitUsage, says, diagnostics)
		}
	}
}

// A verdict does not hide that it was not written.
func TestGateThatIsNotWritten(t *testing.T) {
	code, _, diagnostics := gated(t, plantedRun, "-o", "/dev/full")
	if code != exitLaboratory || !strings.Contains(diagnostics, "no space left") {
		t.Errorf("to a full device: exit code %d, want %d: %s", code, exitLaboratory, diagnostics)
	}
	if code, _, diagnostics := gated(t, plantedRun); code != exitBroken || diagnostics != "" {
		t.Errorf("exit code %d, want %d and not a word: %s", code, exitBroken, diagnostics)
	}
}

// Planted, none and too few in each format, which its own parser reads.
func TestGateFormats(t *testing.T) {
	for verdict, args := range map[string][]string{
		"met":    {plantedRun, "--max", "work/native/spawn:+5%"},
		"broken": {plantedRun, "--max", "work/native:+5%"},
		"open":   {fewRun, "--max", "work/native:+5%"},
	} {
		read := func(format string) string {
			t.Helper()
			file := filepath.Join(t.TempDir(), "out")
			gated(t, append(args, "--format", format, "-o", file)...)
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			return string(data)
		}
		var d struct{ Verdict string }
		if err := json.Unmarshal([]byte(read("json")), &d); err != nil || d.Verdict != verdict {
			t.Errorf("JSON: %q, %v, want %q", d.Verdict, err, verdict)
		}
		var suite struct {
			Failures int `xml:"failures,attr"`
			Case     struct {
				Failure string `xml:"failure"`
			} `xml:"testcase"`
		}
		failed := verdict != "met"
		if err := xml.Unmarshal([]byte(read("junit")), &suite); err != nil || (suite.Failures == 1) != failed || strings.Contains(suite.Case.Failure, "× host, from") != failed {
			t.Errorf("%s in JUnit: %+v, %v", verdict, suite, err)
		}
		level := map[bool]string{true: "::error title=", false: "::notice title="}[failed]
		if text := read("github"); !strings.HasPrefix(text, level+verdict+"%3A work/native") {
			t.Errorf("%s as an annotation: %s", verdict, text)
		}
		if text := read("md"); !strings.Contains(text, "### Limits: "+verdict) {
			t.Errorf("%s in Markdown:\n%s", verdict, text)
		}
	}
}
