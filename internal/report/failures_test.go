package report

import (
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

func TestFailureLineTellsTheLastWordsAndTheLimit(t *testing.T) {
	const limit, words = "the memory limit of 64MiB may have killed it", "its last words"
	code := func(n int) *int { return &n }
	for _, c := range []struct {
		name    string
		failure sample.Failure
		memory  int64
		has     []string
		lacks   []string
	}{
		{"last line", sample.Failure{ExitCode: code(127), Message: "exit code 127", Stderr: "warming up\nsh: sysbnch: not found\n\n"}, 64 << 20,
			[]string{"exit code 127; its last words: sh: sysbnch: not found"}, []string{"warming", limit}},
		{"said already", sample.Failure{Message: "exit code 1: no such file", Stderr: "no such file\n"}, 0, nil, []string{words}},
		{"silent", sample.Failure{Message: "exit code 1", Stderr: " \n"}, 0, nil, []string{words}},
		{"long", sample.Failure{Message: "exit code 1", Stderr: strings.Repeat("ä", 300)}, 0, []string{strings.Repeat("ä", 200) + "…"}, []string{strings.Repeat("ä", 201)}},
		{"how far it came", sample.Failure{Message: "the guest hangs", Reached: map[string]float64{"init": 23.5, "kernel": 0.125}}, 0, []string{"; it had reached kernel after 0.125 s, init after 23.500 s"}, nil},
		{"killed at a limit", sample.Failure{Signal: 9, Message: "killed"}, 64 << 20, []string{"signal 9", limit}, nil},
		{"killed, as a code", sample.Failure{ExitCode: code(137), Message: "killed"}, 64 << 20, []string{limit}, nil},
		{"killed without a limit", sample.Failure{Signal: 9, Message: "killed"}, 0, nil, []string{"memory limit"}},
		{"another signal", sample.Failure{Signal: 11, Message: "killed"}, 64 << 20, nil, []string{"memory limit"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var in Input
			in.Manifest.Cells = []study.Cell{{ID: "host/start"}, {ID: "runc/start", Limits: study.Environment{Memory: c.memory}}}
			in.Claims.Failed = []analysis.FailedCell{{Cell: "runc/start", Failed: 2, Of: 3, Failure: &c.failure}}
			line := failureLine(in.failures()[0])
			for _, s := range c.has {
				if !strings.Contains(line, s) {
					t.Errorf("%q lacks %q", line, s)
				}
			}
			for _, s := range c.lacks {
				if strings.Contains(line, s) {
					t.Errorf("%q has %q", line, s)
				}
			}
		})
	}
}
