package all_test

import (
	"iter"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/all"
	"github.com/tarelab/tare/internal/driver/netpath"
	"github.com/tarelab/tare/internal/driver/vm"
	experiments "github.com/tarelab/tare/internal/experiment/all"
	"github.com/tarelab/tare/internal/kerneltools/containerhost"
	"github.com/tarelab/tare/internal/preflight"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/vmm"
	"github.com/tarelab/tare/internal/workload"
)

// Every built-in study, and every variant of one, is valid on this build, on whatever
// architecture, down to the parameters of its workloads.
func TestStudiesAreValid(t *testing.T) {
	known := study.Known{}
	for _, d := range containerhost.Add(all.Drivers)(driver.Lab{}) {
		known.Targets = append(known.Targets, d.Name())
	}
	for name := range containerhost.Foreign(all.Foreign()) {
		known.Targets = append(known.Targets, name)
	}
	for _, v := range vmm.VMMs() { // which stand in no list
		known.Targets = append(known.Targets, v.Name+vm.RestoredSuffix)
	}
	for _, p := range netpath.Paths() {
		known.Paths = append(known.Paths, string(p))
	}
	for _, w := range workload.All() {
		known.Kinds = append(known.Kinds, w.Kind())
	}
	for _, name := range experiments.Experiments().StudyNames() {
		s := builtIn(t, name)
		if _, quick := s.Variants["quick"]; !quick {
			t.Errorf("study %s has no quick variant: tare run %s --quick fails", name, name)
		}
		if s.ID != name || s.Question == "" {
			t.Errorf("study %s has id %q and question %q", name, s.ID, s.Question)
		}
		if len(s.Notes) > 0 {
			t.Errorf("study %s is written as older versions had it: %q", name, s.Notes)
		}
		valid(t, s, known)
		for v := range s.Variants {
			varied, err := s.Vary(v)
			if err != nil {
				t.Fatal(err)
			}
			valid(t, varied, known)
		}
	}
}

// Studies of virtual machines have some on every architecture, none of which must be
// there, and those of monitors have all.
func TestStudiesHaveMachinesEverywhere(t *testing.T) {
	for name, every := range map[string]bool{"survey": false, "density": false, "vmm-compare": true, "stratovirt-vs-qemu": true} {
		s := builtIn(t, name)
		required := s.Required()
		for _, arch := range vmm.Architectures {
			found := 0
			for _, v := range vmm.For(arch) {
				switch {
				case slices.Contains(required, v.Name):
					t.Errorf("%s must run on %s", name, v.Name)
				case s.Wants(v.Name):
					found++
				case every:
					t.Errorf("%s does not know %s of %s", name, v.Name, arch)
				}
			}
			if found == 0 {
				t.Errorf("%s has no virtual machine on %s", name, arch)
			}
		}
	}
}

// valid checks the names in a study and resolves its workloads at each level.
func valid(t *testing.T, s study.Study, known study.Known) {
	t.Helper()
	if err := s.Validate(known); err != nil {
		t.Errorf("%v", err)
		return
	}
	levels := s.Environments
	if len(levels) == 0 {
		levels = []study.Environment{{}}
	}
	for _, w := range s.Workloads {
		kind, err := workload.ByKind(w.Kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range levels {
			params := s.ParamsOf(w, l, func(name string) bool {
				return slices.ContainsFunc(kind.Params(), func(p workload.Param) bool { return p.Name == name })
			})
			for name, value := range params {
				if times, ok := study.PerCPUTimes(value); ok {
					params[name] = strconv.Itoa(2 * times)
				}
			}
			if _, err := workload.Resolve(w.Kind, params, w.Args); err != nil {
				t.Errorf("%s (variant %q): workload %s at level %q: %v", s.ID, s.Taken, w.Name, l.Name, err)
			}
		}
	}
}

// UnixBench's own durations and the published numbers of containers are offered.
func TestPublishedVariantIsUnixBench(t *testing.T) {
	published, err := builtIn(t, "docker-on-loongson").Vary("published")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range published.Measured() {
		kind, err := workload.ByKind(w.Kind)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(kind.Params(), func(p workload.Param) bool { return p.Name == "time" })
		got := published.ParamsOf(w, study.Environment{}, func(string) bool { return true })["time"]
		d, err := time.ParseDuration(got)
		if err != nil || d.String() != kind.Params()[i].Default {
			t.Errorf("%s runs for %s, in UnixBench for %s", w.Name, got, kind.Params()[i].Default)
		}
	}
	if !slices.Equal(published.Copies, []int{1, 2, 3, 4, 8}) || published.Blocks != 3 {
		t.Errorf("%v containers, %d repetitions", published.Copies, published.Blocks)
	}
}

// builtIn is the built-in study of that name.
func builtIn(t *testing.T, name string) study.Study {
	t.Helper()
	data, err := experiments.Experiments().StudyText(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := study.Parse(name+".yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// variants are the built-in studies by their names, each as it is and in each variant.
func variants(t *testing.T) iter.Seq2[string, study.Study] {
	return func(yield func(string, study.Study) bool) {
		for _, name := range experiments.Experiments().StudyNames() {
			s := builtIn(t, name)
			if !yield(name, s) {
				return
			}
			for v := range s.Variants {
				varied, err := s.Vary(v)
				if err != nil {
					t.Fatal(err)
				}
				if !yield(name, varied) {
					return
				}
			}
		}
	}
}

// An intervention says what it tests and what a user would change, and the page
// knows the noise floor: in each variant that has blocks enough for a verdict the
// control stands twice, watched, too, where a verdict hangs on a wait.
func TestInterventionsHaveAdviceAndATwin(t *testing.T) {
	found := 0
	for name, s := range variants(t) {
		twins := map[string]int{}
		cells, _ := s.Expand(s.Targets)
		for _, c := range cells {
			if c.AA {
				twins[c.Probe]++
			}
		}
		for _, v := range s.Interventions {
			found++
			if v.Why == "" || v.Advice == "" {
				t.Errorf("%s: %s has no cause or no advice", name, v.Name)
			}
			if s.Blocks >= 6 && (twins[""] == 0 || v.Wait != "" && twins[study.ProbeLocks] == 0) {
				t.Errorf("%s (variant %q): %s is judged without a noise floor", name, s.Taken, v.Name)
			}
		}
	}
	if found == 0 {
		t.Error("no study has interventions")
	}
}

// A study with blocks enough for a verdict on one target has enough for one on each of
// its targets, also on a machine that has all of them.
func TestBlocksSufficeForEveryTarget(t *testing.T) {
	for name, s := range variants(t) {
		if s = s.WithDefaults().OnPaths(); s.Blocks < stats.MinimumBlocks {
			continue // for the shapes alone
		}
		cells, _ := s.Expand(slices.Concat(s.Targets, s.Optional))
		twin := slices.ContainsFunc(cells, func(c study.Cell) bool { return c.AA })
		for group, compared := range preflight.Compared(s, cells) {
			if err := analysis.CheckPlan(s.Blocks, s.LastAlpha(s.Blocks), compared, twin); err != nil {
				t.Errorf("%s (variant %q), %s: %v", name, s.Taken, group, err)
			}
		}
	}
}

func TestReadUnknown(t *testing.T) {
	if _, err := experiments.Experiments().StudyText("surveys"); err == nil || !strings.Contains(err.Error(), `did you mean "survey"?`) {
		t.Error(err)
	}
}

// What takes minutes to make is made for who names it: neither the survey nor
// "all", as tare weigh asks for, makes a disk or a kernel.
func TestNobodyMakesPartsUnasked(t *testing.T) {
	data, err := experiments.Experiments().StudyText("survey")
	if err != nil {
		t.Fatal(err)
	}
	survey, err := study.Parse("survey.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	makers := 0
	for _, d := range containerhost.Add(all.Drivers)(driver.Lab{}) {
		if d.Properties().ContainerHost() == nil {
			continue
		}
		makers++
		for _, s := range []study.Study{survey, {Targets: []string{study.AllTargets}}} {
			if s.Wants(d.Name()) {
				t.Errorf("study %q wants %s, whose making takes minutes", s.ID, d.Name())
			}
		}
	}
	if runtime.GOARCH == "amd64" && makers == 0 {
		t.Error("no driver makes parts")
	}
}
