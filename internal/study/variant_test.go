package study

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const varied = `
targets: [host, runc]
workloads: [{kind: start}, {kind: sysbench-cpu, params: {time: 9s, threads: 2}}, {name: more, kind: start, extra: true}]
params: {time: 5s, barrier: shared}
instances: [1, 2, 4]
control-instances: [1]
aa: false
environments: [{name: all, params: {threads: cpus}}, {name: one, cpuset: first}]
variants:
  quick: {targets: [native], optional: [runc], instances: [1, 8], blocks: 1, cold: false, timeout: 5s, params: {time: 1s}, workloads: {sysbench-cpu: {params: {threads: 3}}}}
  long: {blocks: 99}
`

func parsed(t *testing.T, text string) Study {
	t.Helper()
	s, err := Parse("demo.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestVary(t *testing.T) {
	s := parsed(t, varied)
	quick, err := s.Vary("quick")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"native"}, quick.Targets); diff != "" || quick.Optional[0] != "runc" {
		t.Errorf("targets %v and %v", quick.Targets, quick.Optional)
	}
	if quick.Blocks != 1 || *quick.Cold || *quick.AA || quick.Timeout != 5*time.Second || quick.Taken != "quick" || quick.Variants != nil {
		t.Errorf("%+v", quick)
	}
	if diff := cmp.Diff(map[string]string{"time": "1s", "barrier": "shared"}, quick.Params); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"time": "9s", "threads": "3"}, quick.Workloads[1].Params); diff != "" {
		t.Error(diff)
	}
	if s.Params["time"] != "5s" || s.Workloads[1].Params["threads"] != "2" || s.Blocks != DefaultBlocks {
		t.Error("the study itself has changed")
	}
	if long, err := s.Vary("long"); err != nil || long.Blocks != 99 || !*long.Cold || len(long.Copies) != 3 {
		t.Errorf("%+v, %v: what a variant leaves open is the study's", long, err)
	}
	if _, err := s.Vary("quik"); err == nil || !strings.Contains(err.Error(), `did you mean "quick"?`) {
		t.Error(err)
	}
}

// A variant is a merge patch: null takes away, lists replace, keys with values are
// merged, and workloads are found by their names.
func TestVariantsAreMergePatches(t *testing.T) {
	const text = `
targets: [host]
optional: [runc]
workloads:
  - {name: one, kind: start, params: {load: 1MiB, settle: 1s}, instances: [8]}
  - {name: two, kind: start, metrics: [wall, ready]}
  - {name: three, kind: start, extra: true}
params: {time: 5s, barrier: shared}
blocks: 3
fewer-blocks: {from: 50, blocks: 2}
interventions: [{name: cause, workload: one, against: two, expect: faster}]
limits: [{cell: two/runc, at-most: 2 x}]
variants:
  away: {optional: [], blocks: null, params: {time: null}, workloads: {one: {params: {load: null}, instances: null}}}
  chosen: {workloads: [three, {name: one, params: {settle: 2s}}], fewer-blocks: {blocks: 1}}
  without: {workloads: {one: null}}
  limited: {limits: [{cell: one/runc, at-most: +10 %}], interventions: []}
`
	s := parsed(t, text)
	vary := func(name string) Study {
		v, err := s.Vary(name)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	measured := func(s Study) (names []string) {
		for _, w := range s.Measured() {
			names = append(names, w.Name)
		}
		return names
	}
	if v := vary("away"); len(v.Optional) != 0 || v.Blocks != DefaultBlocks || !maps.Equal(v.Params, map[string]string{"barrier": "shared"}) ||
		!maps.Equal(v.Workloads[0].Params, map[string]string{"settle": "1s"}) || v.Workloads[0].Copies != nil {
		t.Errorf("null has left something: %+v", v)
	}
	if v := vary("chosen"); !maps.Equal(v.Workloads[0].Params, map[string]string{"load": "1MiB", "settle": "2s"}) || v.FewerBlocks != (FewerBlocks{50, 1}) {
		t.Errorf("keys are not merged: %+v", v)
	} else if diff := cmp.Diff([]string{"one", "three"}, measured(v)); diff != "" {
		t.Error(diff)
	} else if two, err := v.Select([]string{"two"}); err != nil || len(two.Measured()) != 1 {
		t.Errorf("%v: a workload that the variant leaves out can still be chosen", err)
	} else if len(v.Interventions) != 1 || len(v.WithArms().Interventions) != 0 {
		t.Errorf("%+v: an intervention without its arm", v.Interventions)
	}
	if diff := cmp.Diff([]string{"two"}, measured(vary("without"))); diff != "" {
		t.Error(diff)
	}
	if v := vary("limited"); len(v.Limits) != 1 || v.Limits[0].Cell != "one/runc" || len(v.Interventions) != 0 {
		t.Errorf("%+v", v)
	}
	if s.Optional == nil || s.Workloads[0].Params["load"] != "1MiB" || s.Params["time"] != "5s" || s.Workloads[1].Extra || s.FewerBlocks.Blocks != 2 || len(s.Limits) != 1 {
		t.Errorf("a variant has changed the study: %+v", s)
	}
}

// Variants of older files are read, with a note for each form that has changed.
func TestOldVariants(t *testing.T) {
	s := parsed(t, `
targets: [host]
optional: [runc]
workloads: [{kind: start}, {name: hold, kind: hold}]
variants:
  quick: {workload-params: {start: {load: 1MiB}}, workload-copies: {hold: [20]}, workload-concurrency: {start: [1, 4]}}
  alone: {targets: [native]}
  both: {targets: [native], optional: []}
`)
	quick, err := s.Vary("quick")
	if err != nil {
		t.Fatal(err)
	}
	start, hold := quick.Workloads[0], quick.Workloads[1]
	if start.Params["load"] != "1MiB" || !slices.Equal(start.Concurrency, []int{1, 4}) || !slices.Equal(hold.Copies, []int{20}) {
		t.Errorf("%+v", quick.Workloads)
	}
	want := []string{
		"demo.yaml: workload-params in a variant is now written workloads: {NAME: {params: ...}}; the old form is still read",
		"demo.yaml: workload-copies in a variant is now written workloads: {NAME: {instances: ...}}; the old form is still read",
		"demo.yaml: workload-concurrency in a variant is now written workloads: {NAME: {concurrency: ...}}; the old form is still read",
		"demo.yaml: variants.alone has targets alone, so the study's optional stay: runc; older versions dropped them, and optional: [] does so now",
	}
	if diff := cmp.Diff(want, s.Notes); diff != "" {
		t.Error(diff)
	}
}

// What is wrong in a variant is shown where the variant says it.
func TestVariantProblems(t *testing.T) {
	for text, want := range map[string]string{
		"variants: {quick: {blocs: 1}}":                                    `demo.yaml:3:20: variants.quick.blocs: unknown key "blocs": did you mean "blocks"?`,
		"variants: {quick: {blocks: 0}}":                                   "demo.yaml:3:28: variants.quick.blocks: 0 is less than 1",
		"variants: {quick: {instances: [2, 2]}}":                           "variants.quick.instances[1]: 2 stands twice",
		"variants: {quick: {control-instances: [5000]}}":                   "between 1 and 4096",
		"variants: {quick: {targets: [host, host]}}":                       `variants.quick.targets[1]: "host" stands twice`,
		"variants: {quick: {optional: [host]}}":                            "cannot be optional",
		"variants: {quick: {timeout: 5}}":                                  "variants.quick.timeout",
		"variants: {quick: {workload-params: {strat: {time: 1s}}}}":        `did you mean "start"?`,
		"variants: {quick: {workloads: [strat]}}":                          `demo.yaml:3:32: variants.quick.workloads.strat: unknown workload "strat": did you mean "start"?`,
		"variants: {quick: {workloads: {start: {blocks: -1}}}}":            "demo.yaml:3:48: variants.quick.workloads[0].blocks: -1 is less than 1",
		"variants: {quick: {workloads: {start: null}}}":                    "variants.quick.workloads: the plan is empty: every workload is extra",
		"variants: {quick: {workloads: start}}":                            "expected keys with values",
		"variants: {quick: {variants: {slow: {blocks: 1}}}}":               "variants.quick.variants: a variant has the study's",
		"variants: {quick: {id: other}}":                                   "variants.quick.id: a variant has the study's",
		"variants: {quick: null}":                                          "variants.quick: has no value",
		"variants: {quick: {targets: null}}":                               "variants.quick.targets: the plan is empty",
		"variants: {quick: {workload-params: {start: 1}}}":                 "expected keys with values",
		"variants: {Quick: {blocks: 1}}":                                   "is not a name for a variant",
		"variants: {quick: {blocks: 1000000, instances: [1,2,3,4,5,6,7]}}": "variants.quick.blocks: the plan would have about",
		"control-instances: [0]":                                           "control-instances[0]: 0 is less than 1",
		"environments: [{params: {time: 1s}}]":                             "needs a name",
		"environments: [{name: a b}]":                                      "is not a name for a level",
		"environments: [{name: a}, {name: a, cpus: 1}]":                    `a second level is named "a"`,
		"environments: [{cpuset: first-0}]":                                "is not a list of CPUs",
	} {
		_, err := Parse("demo.yaml", []byte(minimal+text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := Parse("demo.yaml", []byte("targets: [host]\nworkloads: [{kind: start, extra: true}]")); err == nil || !strings.Contains(err.Error(), "every workload is extra") {
		t.Error(err)
	}
	var many strings.Builder
	for i := range maxVariants + 1 {
		fmt.Fprintf(&many, "  v%d: {blocks: 1}\n", i)
	}
	if _, err := Parse("demo.yaml", []byte(minimal+"variants:\n"+many.String())); err == nil || !strings.Contains(err.Error(), "variants.v64: a study has at most 64 variants") {
		t.Error(err)
	}
	s := parsed(t, minimal+"variants:\n  quick:\n    targets: [rnuc]\n")
	if err := s.Validate(known); err == nil || !strings.Contains(err.Error(), "demo.yaml:5:15: variants.quick.targets[0]: unknown target") {
		t.Error(err)
	}
	quick, err := s.Vary("quick")
	if err != nil {
		t.Fatal(err)
	}
	if err := quick.Validate(known); err == nil || !strings.Contains(err.Error(), "demo.yaml:5:15: targets[0]: unknown target") {
		t.Error(err)
	}
	if err := quick.Detached().Validate(known); err == nil || !strings.HasPrefix(err.Error(), "study demo: targets[0]:") {
		t.Error(err)
	}
}

func TestExpandEnvironments(t *testing.T) {
	s := parsed(t, varied)
	cells, _ := s.Expand([]string{"host", "runc"})
	var got []string
	for _, c := range cells {
		if c.Workload == "start" {
			got = append(got, c.ID)
		}
		if c.Workload == "more" {
			t.Errorf("%s is off by default", c.ID)
		}
		if c.Environment != c.Limits.Name || !strings.Contains(c.Group, "+"+c.Environment) || (c.Copies > 1) != strings.Contains(c.Group, "+x") {
			t.Errorf("cell %+v", c)
		}
	}
	want := "host/start+all runc/start+all runc/start+all+x2 runc/start+all+x4 host/start+one runc/start+one runc/start+one+x2 runc/start+one+x4"
	if diff := cmp.Diff(strings.Fields(want), got); diff != "" {
		t.Error(diff)
	}
	s.Copies = []int{3} // the control is measured at its own levels all the same
	cells, _ = s.Expand([]string{"host", "runc"})
	if cells[0].ID != "host/start+all" || cells[1].ID != "runc/start+all+x3" {
		t.Errorf("%+v", cells[:2])
	}
}

// A level that is extra is for the workloads that name it.
func TestExtraLevels(t *testing.T) {
	const text = `id: demo
targets: [host]
aa: false
workloads: [{kind: start}, {name: cpus, kind: start, environments: [one]}]
environments: [%s]
optional-environments: [{name: one, cpuset: first, extra: true}, {name: two, cpuset: first-2, extra: true}]
`
	ids := func(s Study) (all []string) {
		s.Environments = slices.Concat(s.Environments, s.OptionalEnvironments)
		cells, _ := s.Expand([]string{"host"})
		for _, c := range cells {
			all = append(all, c.ID)
		}
		return all
	}
	s := parsed(t, fmt.Sprintf(text, "{}"))
	if got := ids(s); !slices.Equal(got, []string{"host/start", "host/cpus+one"}) {
		t.Errorf("%v", got)
	}
	if left := s.WithoutIdle().OptionalEnvironments; len(left) != 1 || left[0].Name != "one" {
		t.Errorf("%+v: no workload names two", left)
	}
	alone, err := s.SelectEnvironments([]string{"two"})
	if got := ids(alone); err != nil || !slices.Equal(got, []string{"host/start+two"}) {
		t.Errorf("%v, %v: it was asked for by name", got, err)
	}
	if own, err := s.Select([]string{"cpus"}); err != nil {
		t.Error(err)
	} else if own, err = own.SelectEnvironments([]string{"one"}); err != nil || !own.Environments[0].Extra {
		t.Errorf("%+v, %v: the one workload names it", own.Environments, err)
	}
	_, err = Parse("demo.yaml", []byte(fmt.Sprintf(text, "{name: three, extra: true}")))
	if err == nil || !strings.Contains(err.Error(), "all environments of the study are extra") {
		t.Error(err)
	}
}

func TestSelect(t *testing.T) {
	s := parsed(t, varied)
	one, err := s.Select([]string{"more", "start"})
	if err != nil || len(one.Measured()) != 2 || one.Workloads[1].Name != "more" {
		t.Errorf("%+v, %v", one.Workloads, err)
	}
	if len(s.Measured()) != 2 || !s.Workloads[2].Extra {
		t.Error("the study itself has changed")
	}
	for names, want := range map[string]string{"strat": `did you mean "start"?`, "": "known are start, sysbench-cpu, more"} {
		if _, err := s.Select(strings.Fields(names)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", names, err)
		}
	}
	level, err := s.SelectEnvironments([]string{"one"})
	if err != nil || len(level.Environments) != 1 || level.Environments[0].CPUSet != "first" {
		t.Errorf("%+v, %v", level.Environments, err)
	}
	if _, err := s.SelectEnvironments([]string{"two"}); err == nil || !strings.Contains(err.Error(), "known are all, one") {
		t.Error(err)
	}
}

func TestParamsOf(t *testing.T) {
	s := parsed(t, varied)
	has := func(name string) bool { return name == "time" || name == "threads" }
	got := s.ParamsOf(s.Workloads[1], s.Environments[0], has)
	if !maps.Equal(got, map[string]string{"time": "9s", "threads": "cpus"}) {
		t.Errorf("%v: the workload's own above the study's, the level's above both", got)
	}
	got = s.ParamsOf(s.Workloads[0], s.Environments[1], has)
	if !maps.Equal(got, map[string]string{"time": "5s"}) {
		t.Errorf("%v: a parameter that the workload does not have is not the study's to set", got)
	}
}
