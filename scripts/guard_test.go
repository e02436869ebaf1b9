package scripts

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// events are a log of gotestsum: PACKAGE TEST ACTION, or PACKAGE TEST output TEXT.
func events(t *testing.T, lines ...string) string {
	t.Helper()
	var log strings.Builder
	for _, line := range lines {
		words := strings.SplitN(line, " ", 4)
		event := map[string]string{"Package": module + words[0], "Test": words[1], "Action": words[2]}
		if len(words) == 4 {
			event["Output"] = words[3]
		}
		if err := json.NewEncoder(&log).Encode(event); err != nil {
			t.Fatal(err)
		}
	}
	return log.String() + `{"Action":"pass","Package":"` + module + `of-no-test"}` + "\n"
}

// The guard fires at what it is there for, and at nothing else.
func TestGuard(t *testing.T) {
	const list = "# a comment\na TestA(/.*)?\nb Test(B|C)   once # why\nc TestD needs=tool\n"
	fine := []string{"a TestA pass", "a TestA/one pass", "b TestB pass", "b TestC pass", "c TestD pass", "x TestX skip"}
	for name, c := range map[string]struct {
		more  []string // after what is fine
		less  string   // of what is fine, what did not happen
		lacks string
		says  string // "" for nothing
	}{
		"all is fine":                 {},
		"a skip":                      {more: []string{"a TestA skip"}, says: "a TestA may not skip"},
		"a subtest's skip":            {more: []string{"a TestA/two skip"}, says: "a TestA/two may not skip"},
		"a subtest that is not named": {more: []string{"c TestD/two skip"}},
		"the name in another package": {more: []string{"x TestA skip"}},
		"a longer name":               {more: []string{"a TestAll skip"}},
		"a test that is gone":         {less: "c TestD pass", says: "c TestD: no such test has passed"},
		"a skip for want of a tool":   {less: "c TestD pass", more: []string{"c TestD skip"}, lacks: "tool"},
		"a skip for another reason":   {less: "c TestD pass", more: []string{"c TestD skip"}, lacks: "hammer", says: "c TestD may not skip"},
		"a second try":                {more: []string{"a TestA fail", "a TestA pass"}},
		"a second try that may not":   {more: []string{"b TestC fail", "b TestC pass"}, says: "b TestC failed once"},
		"something was left":          {more: []string{"x TestX output x.go:1: left behind: cgroup x\n", "x TestX fail", "x TestX pass"}, says: "x TestX left something behind"},
		"something else was":          {more: []string{"x TestX output x.go:1: too late\n", "x TestX fail", "x TestX output left behind: in a log\n", "x TestX pass"}},
	} {
		dir := t.TempDir()
		var lines []string
		for _, line := range append(fine, c.more...) {
			if line != c.less {
				lines = append(lines, line)
			}
		}
		log, guarded := filepath.Join(dir, "log"), filepath.Join(dir, "guarded")
		if err := errors.Join(os.WriteFile(log, []byte(events(t, lines...)), 0o644), os.WriteFile(guarded, []byte(list), 0o644)); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "python3", append([]string{"guard.py", log, guarded}, strings.Fields(c.lacks)...)...).CombinedOutput()
		if (err != nil) != (c.says != "") || !strings.Contains(string(out), c.says) || c.says == "" && len(out) > 0 {
			t.Errorf("%s: %v, said %q, want %q", name, err, out, c.says)
		}
	}
}

// Each line of the list names a test that there is: one that is renamed must not go
// unguarded until the end of the next make test.
func TestGuardedTestsExist(t *testing.T) {
	list, err := os.ReadFile("guarded")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		test, _, _ := strings.Cut(words[1], "/")
		pattern := regexp.MustCompile(`(?m)^func (` + strings.TrimSuffix(test, "(") + `)\(t \*testing\.T\)`)
		files, err := filepath.Glob(filepath.Join("..", words[0], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || pattern.Match(text)
		}
		if !found {
			t.Errorf("%s has no test %s", words[0], words[1])
		}
	}
}
