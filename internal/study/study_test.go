package study

import (
	"github.com/tarelab/tare/internal/limit"

	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const minimal = "targets: [host, runc]\nworkloads: [{kind: start}]\n"

var known = Known{Targets: []string{"host", "native", "runc", "crun", "native/spawn"}, Kinds: []string{"start", "sysbench-cpu", "command"}}

func TestParse(t *testing.T) {
	got, err := Parse("dir/demo.yaml", []byte(`
id: demo
targets: [host, runc]
optional:
  - crun
workloads:
  - kind: sysbench-cpu
    name: cpu
    params: {time: 1s, threads: 2, max-prime: 1e4}
    env: {DEBUG: "no"}
  - {kind: command, args: [sh, -c, "exit 3"], prepare: [sync]}
environments: [{cpus: 1.5, cpuset: 0-1, memory: 512MiB, pids: 100}]
instances: [1, 8]
blocks: 20
margin: 3 %
alpha: 0.01
timeout: 1m30s
aa: false
`))
	if err != nil {
		t.Fatal(err)
	}
	no, yes := false, true
	want := Study{
		ID: "demo", Title: "demo", Targets: []string{"host", "runc"}, Optional: []string{"crun"},
		Workloads: []Workload{
			{Name: "cpu", Kind: "sysbench-cpu", Params: map[string]string{"time": "1s", "threads": "2", "max-prime": "1e4"}, Env: map[string]string{"DEBUG": "no"}},
			{Name: "command", Kind: "command", Args: []string{"sh", "-c", "exit 3"}, Prepare: []string{"sync"}},
		},
		Environments: []Environment{{CPUs: 1.5, CPUSet: "0-1", Memory: 512 << 20, Pids: 100}}, Copies: []int{1, 8},
		Control: "host", AA: &no, Cold: &yes, Counters: &yes, Blocks: 20, Margin: 0.03, Alpha: 0.01, Timeout: 90 * time.Second, Slice: DefaultSlice, View: ViewPriceList,
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Study{})); diff != "" {
		t.Error(diff)
	}
	if err := got.Validate(known); err != nil {
		t.Error(err)
	}
}

// Each refusal names its place and says what to do.
func TestRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "study is empty",
		"# only a comment\n": "study is empty",
		minimal + "blocs: 3": `demo.yaml:3:1: blocs: unknown key "blocs": did you mean "blocks"?`,
		minimal + "environments: [{memory: 512 apples}]":                                            `demo.yaml:3:25: environments[0].memory: "512 apples": "apples" is no unit of size`,
		minimal + "environments: [{cpus: 0.01}, {cpus: 0.009}]":                                     `demo.yaml:3:37: environments[1].cpus: 0.009 of a CPU is less than 0.01`,
		minimal + "environments: [{memory: -5MiB}]":                                                 `demo.yaml:3:25: environments[0].memory: "-5MiB" is negative`,
		minimal + "environments: [{memory: 512M}]":                                                  `"M" is no unit of size`,
		minimal + "environments: [{cpus: -1}]":                                                      "environments[0].cpus: -1 is not above zero",
		minimal + "environments: [{cpuset: a}]":                                                     "is not a list of CPUs",
		minimal + "environments: [{pids: 5}, {pids: 5}]":                                            "the same limits stand twice",
		minimal + "environments: [{guest: {ksm: true}}]":                                            "demo.yaml:3:24: environments[0].guest: a level with a guest needs a name",
		minimal + "environments: [{name: a, guest: {ksm: true}, network: {neighbour-limit: 2048}}]": "a level changes one thing of the whole machine",
		minimal + "blocks: 0":                                                                       "demo.yaml:3:9: blocks: 0 is less than 1",
		minimal + "blocks: many":                                                                    "is not a whole number",
		minimal + "blocks: 99999999999999999999":                                                    "is too large",
		minimal + "instances: [4, 4]":                                                               "instances[1]: 4 stands twice",
		minimal + "margin: 2":                                                                       "is not between 0 and 1",
		minimal + "margin: .nan":                                                                    "is not a share",
		minimal + "timeout: 10":                                                                     "write a number and a unit",
		minimal + "timeout: -1s":                                                                    "is not above zero",
		minimal + "aa: yes":                                                                         "neither true nor false",
		minimal + "view: laddr":                                                                     `did you mean "ladder"?`,
		minimal + "probes: [cpu]":                                                                   `demo.yaml:3:10: probes[0]: unknown probe "cpu": known are locks, stacks`,
		minimal + "beside: [host]":                                                                  "only a ladder has a chain",
		minimal + "interventions: [{name: a, workload: start, against: strat, expect: none}]": `interventions[0].against: unknown workload of the study "strat": did you mean "start"?`,
		minimal + "interventions: [{name: a, workload: start, against: start, expect: none}]": "it is the control itself",
		minimal + "interventions: [{name: a, target: host, against: hots, expect: none}]":     `interventions[0].against: unknown target of the study "hots": did you mean "host"?`,
		minimal + "interventions: [{name: a, target: host, against: host, expect: none}]":     "it is the control itself",
		minimal + "probes: [lokcs]":                                       `did you mean "locks"?`,
		minimal + "optional-probes: [lokcs]":                              `optional-probes[0]: unknown probe "lokcs"`,
		minimal + "watched-from: -1":                                      "watched-from: -1 is less than 1",
		minimal + "probes: [locks, locks]":                                "stands twice",
		minimal + "id: My Study":                                          "is no id",
		minimal + "targets: [a]":                                          "demo.yaml:3:1: targets: stands twice",
		minimal + "optional: [host]":                                      "the control \"host\" cannot be optional",
		"targets: []\nworkloads: [{kind: start}]":                         "demo.yaml:1:10: targets: the plan is empty",
		"targets: [host]":                                                 "workloads: the plan is empty",
		"targets: [host]\nworkloads:\n":                                   "demo.yaml:2:1: workloads: has no value",
		"targets: [host, host]\nworkloads: [{kind: start}]":               `demo.yaml:1:17: targets[1]: "host" stands twice`,
		"targets: host\nworkloads: [{kind: start}]":                       "expected a list",
		"targets: [host]\nworkloads: [{kind: start}, {kind: start}]":      `a second workload is named "start"`,
		"targets: [host]\nworkloads: [{name: x}]":                         "a workload needs its kind",
		"targets: [host]\nworkloads: [{kind: start, name: a/b}]":          "is not a name for a workload",
		"targets: [host]\nworkloads: [{kind: start, parms: {}}]":          `did you mean "params"?`,
		"targets: [host]\nworkloads: [{kind: start, within: 1s}]":         "runs must be 2 or more",
		"targets: [host]\nworkloads: [{kind: command, args: sh -c exit}]": "expected a list, found a single value",
		"targets: [host]\nworkloads: [{kind: start, env: {A=B: x}}]":      "is not a name for an environment variable",
		"targets: &t [host]\nworkloads: *t":                               "anchors, aliases and merge keys are not used",
		"targets: !!set [host]":                                           "tags and directives are not used",
		minimal + "---\n" + minimal:                                       "this is a second one",
		"- a\n- b":                                                        "expected keys with values, found a list",
		"targets: [host":                                                  "demo.yaml:1:",
		strings.Repeat("[", 5000):                                         "nested too deeply",
		strings.Repeat("- ", 5000):                                        "nested too deeply",
		strings.Repeat(" ", int(limit.Study.Bytes)+1):                     "study has more than 1048576 bytes",
		strings.Repeat("a: b\n", limit.Study.Items):                       "too long",
		"instances: [1,2,3,4,5,6]\ntargets: [host]\nworkloads: [" + strings.Repeat("{kind: x},", 1500): "cells: at most 10000 can be planned",
		minimal + "blocks: 1000000\ncopies: [1,2,3,4,5,6,7]":                                           "trials: at most 10000000 can be planned",
		"targets: [host]\nworkloads: [{kind: start, runs: 100}]\nblocks: 1000000":                      "trials: at most 10000000 can be planned",
	} {
		s, err := Parse("demo.yaml", []byte(closed(text)))
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %.200v (%+v), want %q", text, err, s.ID, want)
		}
	}
}

// closed ends the one generated list of the table.
func closed(text string) string {
	if strings.HasSuffix(text, "{kind: x},") {
		return text + "]"
	}
	return text
}

func TestSeveralAtOnceWithTheirLines(t *testing.T) {
	_, err := Parse("demo.yaml", []byte("targets: [host]\nworkloads: [{kind: start}]\nblocks: 0\nmargin: 3\n\tview: x\n"))
	if err == nil || strings.Count(err.Error(), "demo.yaml:") != 1 {
		t.Errorf("a syntax error stands alone: %v", err)
	}
	_, err = Parse("demo.yaml", []byte("targets: [host]\nworkloads: [{kind: start}]\nblocks: 0\nmargin: 3\nview: x\n"))
	want := `demo.yaml:3:9: blocks: 0 is less than 1
  3 | blocks: 0
    |         ^
demo.yaml:4:9: margin: "3" is not between 0 and 1: write a percentage ("2 %") or a fraction (0.02)
  4 | margin: 3
    |         ^
demo.yaml:5:7: view: unknown view "x": known are price-list, ladder
  5 | view: x
    |       ^`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestValidateNames(t *testing.T) {
	s, err := Parse("demo.yaml", []byte("targets: [host, rnuc]\noptional: [nativ]\nworkloads: [{kind: sysbench}, {kind: start}]\ncontrol: hots\n"))
	if err != nil {
		t.Fatal(err)
	}
	err = s.Validate(known)
	for _, want := range []string{
		`demo.yaml:1:17: targets[1]: unknown target "rnuc": did you mean "runc"?`, `demo.yaml:2:12: optional[0]: unknown target "nativ": did you mean "native"?`,
		`demo.yaml:3:20: workloads[0].kind: unknown workload "sysbench": known are start, sysbench-cpu, command`, `did you mean "host"?`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %s", err, want)
		}
	}
	made := Study{ID: "weigh", Targets: []string{"moon"}, Workloads: []Workload{{Kind: "start"}}}.WithDefaults()
	if err := made.Validate(known); err == nil || !strings.HasPrefix(err.Error(), `study weigh: targets[0]: unknown target "moon"`) {
		t.Errorf("a study made by a program: %v", err)
	}
}

func ids(cells []Cell) string {
	var out []string
	for _, c := range cells {
		out = append(out, c.ID)
	}
	return strings.Join(out, " ")
}

func TestExpand(t *testing.T) {
	available := []string{"host", "native", "native/spawn", "runc"}
	for text, want := range map[string]string{
		minimal:                                     "host/start host~aa/start runc/start; ",
		minimal + "aa: false":                       "host/start runc/start; ",
		minimal + "optional: [crun, native]":        "host/start host~aa/start runc/start native/start; {crun true}",
		minimal + "control: native":                 "native/start native~aa/start host/start runc/start; ",
		minimal + "instances: [1, 4]":               "host/start host~aa/start runc/start host/start+x4 host~aa/start+x4 runc/start+x4; ",
		"targets: [all]\nworkloads: [{kind: cpu}]":  "host/cpu host~aa/cpu native/cpu runc/cpu; ",
		"targets: [crun]\nworkloads: [{kind: cpu}]": "host/cpu host~aa/cpu; {crun false}",
		"targets: [host]\naa: false\nworkloads: [{kind: x}]\ncopies: [1, 4]\nprobes: [locks]\nwatched-from: 2":                    "host/x host/x+x4 host/x+x4~locks; ",
		"targets: [host]\naa: false\nworkloads: [{kind: x}]\noptional-probes: [locks]":                                            "host/x; ",
		"targets: [host, crun, runc]\noptional: [crun, native/spawn]\naa: false\nworkloads: [{kind: x}]":                          "host/x runc/x native/spawn/x; {crun true}",
		"targets: [host]\naa: false\nworkloads: [{kind: x}]\nenvironments: [{cpus: 0.5}, {memory: 1.5GiB, cpuset: 0-1, pids: 9}]": "host/x+cpus=0.5 host/x+cpuset=0-1+memory=1536MiB+pids=9; ",
	} {
		s, err := Parse("demo.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		cells, left := s.Expand(available)
		got := ids(cells) + ";"
		for _, l := range left {
			got += fmt.Sprint(" ", l)
		}
		if strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("%s\ngave %s\nwant %s", text, got, want)
		}
		seen := map[string]bool{}
		controls := map[string]int{}
		for _, c := range cells {
			if seen[c.ID] || c.Control && c.AA {
				t.Errorf("cell %+v is not unique", c)
			}
			seen[c.ID] = true
			if c.Control {
				controls[c.Group]++
			}
		}
		for group, n := range controls {
			if n != 1 {
				t.Errorf("group %s has %d controls", group, n)
			}
		}
		for _, c := range cells {
			if !s.Wants(c.Target) || controls[c.Group] != 1 {
				t.Errorf("cell %+v: its target is not wanted, or its group has no control", c)
			}
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{"512MiB": 512 << 20, "1.5 GB": 15e8, "4096": 4096, "7B": 7, "1TiB": 1 << 40, ".5KiB": 512} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%s: %d (%v), want %d", text, got, err, want)
		}
	}
	for _, n := range []int64{1, 1023, 1024, 3 << 20, 5<<30 + 1, 1 << 50} {
		if got, err := ParseSize(formatSize(n)); err != nil || got != n {
			t.Errorf("%d: %s: %d (%v)", n, formatSize(n), got, err)
		}
	}
	for _, text := range []string{"", "x", "0", "-1", "1e30", "9999999TiB", "0.1B", "5 5", "MiB", "512MiBs"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q is accepted as %d", text, got)
		}
	}
}

// Files of before keys got the words of the reports are read, with a note for each.
func TestOldWords(t *testing.T) {
	old, err := Parse("old.yaml", []byte(minimal+"copies: [1, 4]\ndistinct-limits: true\nlimits: [{name: a, cpus: 1}]\nvariants: {quick: {limits: [{name: b}], workload-copies: {start: [2]}}}"))
	if err != nil {
		t.Fatal(err)
	}
	now, err := Parse("old.yaml", []byte(minimal+"instances: [1, 4]\ndistinct-environments: true\nenvironments: [{name: a, cpus: 1}]\nvariants: {quick: {environments: [{name: b}], workloads: {start: {instances: [2]}}}}"))
	if err != nil || len(now.Notes) > 0 {
		t.Fatal(err, now.Notes)
	}
	notes := strings.Join(old.Notes, "\n")
	for _, want := range []string{"copies is now called instances", "distinct-limits is now called distinct-environments", "limits is now called environments", "workload-copies in a variant is now written workloads: {NAME: {instances: ...}}"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in\n%s", want, notes)
		}
	}
	if len(old.Notes) != 4 {
		t.Errorf("%d notes: %q", len(old.Notes), old.Notes)
	}
	old.Notes, old.src, now.src = nil, nil, nil
	for _, s := range []Study{old, now} {
		for name := range s.Variants {
			s.Variants[name] = s.Variants[name].Detached()
		}
	}
	if !reflect.DeepEqual(old, now) {
		t.Errorf("old words give %+v, new ones %+v", old, now)
	}
	_, err = Parse("both.yaml", []byte(minimal+"copies: [1]\ninstances: [2]"))
	if err == nil || !strings.Contains(err.Error(), "instances: stands twice, once by its old name") {
		t.Error(err)
	}
}

// A key that is gone is left out of old studies, with what stands in its place.
func TestKeysThatAreGone(t *testing.T) {
	s, err := Parse("old.yaml", []byte("targets: [host]\nworkloads: [{kind: start, runs: 5, once: [host]}]"))
	if err != nil || len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "the key once is left out: `within: 500ms`") || s.Workloads[0].Runs != 5 {
		t.Errorf("%v, notes %q, %+v", err, s.Notes, s.Workloads)
	}
	if _, err := Parse("old.yaml", []byte("targets: [host]\nonce: [host]\nworkloads: [{kind: start}]")); err == nil {
		t.Error("a study has no key once, and never had one")
	}
}

// Every key of the schema is in its documentation, and every field that YAML
// can reach has a reader for its type.
func TestDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/studies.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[Study](), reflect.TypeFor[Workload](), reflect.TypeFor[Environment](), reflect.TypeFor[Network](), reflect.TypeFor[Guest](), reflect.TypeFor[Intervention](), reflect.TypeFor[Limit]()} {
		for _, key := range keysOf(typ) {
			if !strings.Contains(string(doc), "\n| `"+key+"` |") {
				t.Errorf("docs/studies.md has no row for %s.%s", typ.Name(), key)
			}
			f, _ := fieldOf(typ, key)
			if f.Type == reflect.TypeFor[time.Duration]() && f.Tag.Get("as") != "duration" {
				t.Errorf("%s.%s is a duration without its as tag", typ.Name(), key)
			}
		}
	}
	blocks := strings.Split(string(doc), "```yaml\n")[1:]
	if len(blocks) == 0 {
		t.Error("docs/studies.md shows no example")
	}
	for _, b := range blocks {
		text, _, _ := strings.Cut(b, "```")
		if _, err := Parse("example.yaml", []byte(text)); err != nil {
			t.Errorf("an example of docs/studies.md: %v", err)
		}
	}
}

// Nothing that a file can hold makes the parser panic, hang, or accept a study
// that its own checks refuse.
func FuzzParse(f *testing.F) {
	for _, text := range []string{minimal, "a: &a [*a]", "? - : {", "targets: [\"\\u0000\"]\nworkloads: [{kind: start}]", "- - - [[{{", "a: |\n  x\n b", "\xff\xfe", "%YAML 1.2\n---\n", "<<: {a: b}", "a: 'x", minimal + "environments: [{memory: 9e99TiB}]"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		began := time.Now()
		s, err := Parse("fuzz.yaml", data)
		if took := time.Since(began); took > 5*time.Second {
			t.Fatalf("%d bytes took %s", len(data), took)
		}
		if err != nil {
			if strings.ContainsAny(strings.ReplaceAll(err.Error(), "\n", ""), "\x00\x1b") {
				t.Fatalf("control characters reach the terminal: %q", err)
			}
			return
		}
		if problems := s.check(); len(problems) > 0 {
			t.Fatalf("accepted and refused: %+v", problems)
		}
		cells, _ := s.Expand([]string{"host", "runc"})
		if len(cells) > maxCells {
			t.Fatalf("%d cells", len(cells))
		}
	})
}

// A command has a name as a workload, whatever it is called.
func TestNameOf(t *testing.T) {
	for text, want := range map[string]string{
		"sysbench": "sysbench", "g++": "g__", "foo~": "foo_", "my tool": "my_tool", "/": "_", "a\x00\x1bb": "a__b", "größe": "größe",
		strings.Repeat("ö", 70): strings.Repeat("ö", 64), "\xff": "\uFFFD",
	} {
		got := NameOf(text)
		if got != want || !isLevel(got) {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// A user's choice of probes watches every cell; a study that has probes of its own
// keeps its choice of blocks.
func TestWatch(t *testing.T) {
	own := Study{OptionalProbes: []string{ProbeLocks}, WatchedFrom: 50, WatchedBlocks: 1}
	if s := own.Watch([]string{ProbeStacks}); !slices.Equal(s.Probes, []string{ProbeStacks}) || s.OptionalProbes != nil || s.WatchedFrom != 0 || s.WatchedBlocks != 0 {
		t.Errorf("%+v", s)
	}
	if s := own.Watch(nil); len(s.Probes)+len(s.OptionalProbes) != 0 {
		t.Errorf("no probe leaves %+v", s)
	}
	if s := (Study{WatchedBlocks: 2}).Watch([]string{ProbeLocks}); s.WatchedBlocks != 2 {
		t.Errorf("%+v", s)
	}
}

func TestExcept(t *testing.T) {
	st, err := Parse("x.yaml", []byte(`
id: x
targets: [host, runc, qemu/microvm]
workloads:
  - {kind: start}
  - {kind: sysbench-cpu, except: [qemu/microvm]}
`))
	if err != nil {
		t.Fatal(err)
	}
	cells, _ := st.Expand([]string{"host", "runc", "qemu/microvm"})
	var got []string
	for _, c := range cells {
		got = append(got, c.ID)
	}
	if want := []string{"host/start", "host~aa/start", "runc/start", "qemu/microvm/start", "host/sysbench-cpu", "host~aa/sysbench-cpu", "runc/sysbench-cpu"}; !slices.Equal(got, want) {
		t.Errorf("cells %q, want %q", got, want)
	}
	if _, err := Parse("x.yaml", []byte("id: x\ntargets: [host]\nworkloads: [{kind: start, except: [host]}]\n")); err == nil || !strings.Contains(err.Error(), "cannot be left out") {
		t.Errorf("a control that is left out: %v", err)
	}
}
