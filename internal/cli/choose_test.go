package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/tarelab/tare/internal/study"
)

// choose applies flags to a study that has something for all of them.
func choose(t *testing.T, args ...string) (study.Study, error) {
	t.Helper()
	st, err := new(Env).loadStudy("./testdata/choose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	var f chooseFlags
	f.define(flags)
	if err := flags.Parse(args); err != nil {
		return st, err
	}
	return f.apply(flags, st)
}

func TestChoose(t *testing.T) {
	st, err := choose(t, "--quick", "--workloads", "execl,memory", "--instances", "0..2,8", "--on", "runc,crun",
		"--set", "copies=3", "--cpuset", "first-2", "--environments", "allcpu-ncopies,1cpu-1copy")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, w := range st.Measured() {
		names = append(names, w.Name)
	}
	if diff := cmp.Diff([]string{"execl", "memory"}, names); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{1, 2, 8}, st.Copies); diff != "" {
		t.Error(diff)
	}
	if st.Blocks != 1 || st.Taken != "quick" || !slices.Equal(st.Targets, []string{"runc", "crun"}) || st.Optional != nil {
		t.Errorf("%+v", st)
	}
	want := []study.Environment{
		{Name: "allcpu-ncopies", CPUSet: "first-2", Params: map[string]string{"copies": "3", "threads": "cpus", "jobs": "cpus"}},
		{Name: "1cpu-1copy", CPUSet: "first", Params: map[string]string{"copies": "1"}},
	}
	if diff := cmp.Diff(want, st.Environments); diff != "" {
		t.Error(diff)
	}
	again, err := choose(t, "--workloads", "execl", "--instances", "0")
	if err != nil || len(again.Measured()) != 1 || !slices.Equal(again.Targets, []string{"host"}) || !slices.Equal(again.Copies, []int{1}) {
		t.Errorf("%+v, %v: 0 containers are the host alone", again, err)
	}
	if plain, err := choose(t); err != nil || plain.Taken != "" || len(plain.Copies) != 5 || plain.Environments[0].Params["copies"] != "cpus" {
		t.Errorf("%+v, %v: the flags have changed the study that they came from", plain, err)
	}
}

func TestChooseRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--quick --published":                        "variants published and quick exclude each other",
		"--variant quik":                             `did you mean "quick"?`,
		"--tests dhristone2":                         `did you mean "dhrystone2"?`,
		"--tests execl,dhristone2,zzzzz":             `unknown workload "dhristone2"`,
		"--environments 1cpu-2copy":                  `did you mean "1cpu-1copy"?`,
		"--containers 4..1":                          "no range that goes up",
		"--containers -1":                            "no range that goes up",
		"--containers one":                           `"one" is not a number or a range`,
		"--containers 1..":                           "is not a number or a range",
		"--containers 0..1000000":                    "more than 1000 numbers",
		"--copies-inside 0":                          `--set copies=0: workload dhrystone2: parameter "copies": 0 is outside 1 to`,
		"--set copies":                               "write --set FACTOR=LEVELS",
		"--set memory=1GiB --set memory=2GiB":        "--set memory=2GiB: memory stands twice: write --set memory=1GiB,2GiB",
		"--copies-inside 2 --set copies=3":           "copies stands twice",
		"--set =3":                                   "write --set FACTOR=LEVELS",
		"--set spoons=3":                             "no workload of study choose has a parameter spoons; environments have the keys cpus, ",
		"--set memory=1M":                            "--set memory=1M: memory: ",
		"--set instances=x":                          `"x" is not a number or a range`,
		"--set message=1X --workloads memory":        "--set message=1X: 1X: no workload that is measured has messages",
		"--cpuset first-1 --environments 1cpu-1copy": "no environment of the study lets an instance use all CPUs",
	} {
		if _, err := choose(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// A factor is a parameter of workloads or a key of environments. One level replaces,
// several make an environment each.
func TestSet(t *testing.T) {
	levels := func(args ...string) (names []string, st study.Study) {
		t.Helper()
		st, err := choose(t, args...)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range st.Environments {
			names = append(names, l.Name)
		}
		return names, st
	}
	kept := []string{"allcpu-ncopies", "1cpu-1copy", "allcpu-1copy"}
	for args, want := range map[string][]string{
		"--set copies=3":     {"allcpu-ncopies", "1cpu-1copy", "allcpu-1copy"},
		"--set memory=64MiB": kept,
		"--set time=1s":      kept,
		"--set copies=1,2 --environments 1cpu-1copy":    {"1-copies", "2-copies"},
		"--set copies=1..2 --environments 1cpu-1copy":   {"1-copies", "2-copies"},
		"--set pids=9,10 --environments 1cpu-1copy":     {"1cpu-1copy-pids-9", "1cpu-1copy-pids-10"},
		"--set time=1s,2s --environments 1cpu-1copy":    {"1cpu-1copy-1s-time", "1cpu-1copy-2s-time"},
		"--set environments=1cpu-1copy --set memory=1G": nil,
	} {
		if want == nil {
			if _, err := choose(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), "--set memory=1G: memory") {
				t.Errorf("%s: %v", args, err)
			}
			continue
		}
		if got, _ := levels(strings.Fields(args)...); !slices.Equal(got, want) {
			t.Errorf("%s: environments %q, want %q", args, got, want)
		}
	}
	_, st := levels("--set", "memory=64MiB", "--set", "mtu=9000", "--set", "time=1s", "--set", "instances=3", "--threads", "7")
	first := st.Environments[0]
	if first.Memory != 64<<20 || first.Network == nil || first.Network.MTU != 9000 || first.Params["threads"] != "7" || st.Environments[1].CPUSet != "first" {
		t.Errorf("%+v", st.Environments)
	}
	if st.Workloads[0].Params["time"] != "1s" || !slices.Equal(st.Copies, []int{3}) {
		t.Errorf("%+v, instances %v", st.Workloads[0], st.Copies)
	}
	if _, plain := levels(); plain.Environments[0].Memory != 0 || plain.Environments[0].Params["threads"] != study.PerCPU || plain.Workloads[0].Params["time"] != "" {
		t.Errorf("%+v: --set has changed the study that it came from", plain)
	}
}

// Numbers of instances on the command line are the only ones: workloads with numbers of
// their own are left out unless they are named, and so is what a study watches by itself.
func TestChosenInstancesAreTheOnlyOnes(t *testing.T) {
	st := study.Study{Copies: []int{1, 50}, OptionalProbes: []string{study.ProbeLocks}, Workloads: []study.Workload{
		{Name: "start", Kind: "start"}, {Name: "hold", Kind: "hold", Copies: []int{500}},
	}}
	for args, want := range map[string]struct {
		workloads, apart int
		probes           []string
	}{
		"":                                      {2, 0, []string{study.ProbeLocks}},
		"--containers 3":                        {1, 1, nil},
		"--containers 3 --workloads hold,start": {2, 0, []string{study.ProbeLocks}},
		"--containers 3 --workloads hold":       {1, 0, []string{study.ProbeLocks}},
		"--containers 3 --probes locks":         {1, 1, nil},
	} {
		var f chooseFlags
		flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
		f.define(flags)
		if err := flags.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		got, err := f.apply(flags, st)
		if err != nil || len(got.Workloads) != want.workloads || len(f.apart) != want.apart || !slices.Equal(got.OptionalProbes, want.probes) {
			t.Errorf("%q: workloads %+v, apart %v, probes %v, %v", args, got.Workloads, f.apart, got.OptionalProbes, err)
		}
	}
	all := study.Study{Workloads: []study.Workload{{Name: "hold", Copies: []int{500}}}}
	if kept, apart := all.Alike(); len(kept.Workloads) != 1 || apart != nil {
		t.Errorf("%+v, %v: nothing would be left", kept.Workloads, apart)
	}
}

// Counters are left out of studies that have some.
func TestChooseWithoutCounters(t *testing.T) {
	if st, err := choose(t, "--concurrency", "4", "--no-counters"); err != nil || st.Counters == nil || *st.Counters {
		t.Errorf("%v, %v", st.Counters, err)
	}
	if _, err := choose(t, "--no-counters"); err == nil || !strings.Contains(err.Error(), "it has no counters") {
		t.Errorf("of a study that counts nothing: %v", err)
	}
}

// A workload that is measured on other targets alone is left out.
func TestOnLeavesOutWhatOthersMeasure(t *testing.T) {
	parsed, err := study.Parse("s.yaml", []byte(`{targets: [host, runc, crun], control: host, workloads: [
		{name: a, kind: start}, {name: b, kind: start, targets: [crun]}, {name: c, kind: start, targets: [runc, crun]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for on, want := range map[string]string{"host,runc": "a:[] c:[runc]", "host,crun": "a:[] b:[crun] c:[crun]"} {
		flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
		var f chooseFlags
		f.define(flags)
		if err := flags.Parse([]string{"--on", on}); err != nil {
			t.Fatal(err)
		}
		st, err := f.apply(flags, parsed)
		var left []string
		for _, w := range st.Workloads {
			left = append(left, fmt.Sprintf("%s:%v", w.Name, w.Targets))
		}
		if got := strings.Join(left, " "); err != nil || got != want {
			t.Errorf("%s: %s, want %s (%v)", on, got, want, err)
		}
	}
}
