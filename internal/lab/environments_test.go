package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/workload"
)

// Where one CPU alone may be used, three levels are one; where more may, they are
// three.
func TestLevelsThatComeToTheSame(t *testing.T) {
	st := study.Study{
		Workloads: []study.Workload{{Name: "execl", Kind: "unix-execl"}, {Name: "syscall", Kind: "unix-syscall"}},
		Environments: []study.Environment{
			{Name: "allcpu-ncopies", Params: map[string]string{"copies": "cpus", "threads": "cpus", "jobs": "cpus"}},
			{Name: "1cpu-1copy", CPUSet: "first", Params: map[string]string{"copies": "1"}},
			{Name: "allcpu-1copy", Params: map[string]string{"copies": "1"}},
		},
	}
	one, near := []int{0}, []study.Environment{{Name: "all"}, {Name: "node-near", Mems: "0"}}
	names := []string{"allcpu-ncopies", "1cpu-1copy", "allcpu-1copy"}
	for _, c := range []struct {
		allowed  []int
		mems     []int
		levels   []study.Environment
		distinct bool
		want     string
	}{
		{[]int{3}, one, st.Environments, true, "allcpu-ncopies=[1cpu-1copy allcpu-1copy]"},
		{[]int{3}, one, st.Environments, false, "allcpu-ncopies=[] 1cpu-1copy=[] allcpu-1copy=[]"},
		{[]int{0, 3}, one, st.Environments, true, "allcpu-ncopies=[] 1cpu-1copy=[] allcpu-1copy=[]"},
		{[]int{0, 3}, one, boundToOne(st.Environments), true, "allcpu-ncopies=[1cpu-1copy allcpu-1copy]"},
		{[]int{3}, one, append(slices.Clone(st.Environments), study.Environment{Name: "less", Memory: 1 << 30}), true, "allcpu-ncopies=[1cpu-1copy allcpu-1copy] less=[]"},
		{[]int{3}, one, st.Environments[2:], true, "allcpu-1copy=[]"},
		{[]int{0, 3}, one, near, true, "all=[node-near]"},
		{[]int{0, 3}, []int{0, 1}, near, true, "all=[] node-near=[]"},
	} {
		p := &Plan{}
		p.Manifest.Study = st
		p.Manifest.Study.Environments, p.Manifest.Study.DistinctEnvironments = c.levels, c.distinct
		if err := p.settleLevels(c.allowed, c.mems); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range p.Manifest.Study.Environments {
			got = append(got, fmt.Sprintf("%s=%v", l.Name, l.Same))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("CPUs %v: %v, want %s", c.allowed, got, c.want)
		}
		if noted := strings.Contains(strings.Join(p.Notes, "\n"), "come to the same"); noted != (strings.Contains(c.want, "[1") || strings.Contains(c.want, "[node")) {
			t.Errorf("CPUs %v: notes %q", c.allowed, p.Notes)
		}
		for _, name := range names {
			if slices.ContainsFunc(c.levels, func(l study.Environment) bool { return l.Name == name }) && p.Manifest.CPUs[name].Threads == 0 {
				t.Errorf("CPUs %v: %s might use %+v", c.allowed, name, p.Manifest.CPUs[name])
			}
		}
	}
}

// boundToOne is what --cpus 1 does.
func boundToOne(levels []study.Environment) []study.Environment {
	levels = slices.Clone(levels)
	for i := range levels {
		levels[i].CPUSet = "first"
	}
	return levels
}

func TestAllowedCPUs(t *testing.T) {
	cpus, err := sys.AllowedCPUs()
	if err != nil || len(cpus) == 0 || !slices.IsSorted(cpus) {
		t.Fatalf("%v, %v", cpus, err)
	}
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Fatal(err)
	}
	if want := "Cpus_allowed_list:\t" + sys.FormatCPUs(cpus) + "\n"; !strings.Contains(string(status), want) {
		t.Errorf("the kernel does not say %q", want)
	}
}

// What works for an instance has the CPUs of its level, and not its payload alone.
func TestGroupsHaveTheCPUsOfTheirLevel(t *testing.T) {
	session, err := newSession(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	groups, err := newGroups(session.name)
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 || !groups.trees.Usable() {
		t.Skip("needs cgroups that this user may make")
	}
	cpus, err := sys.AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	want := sys.FormatCPUs(cpus[:1])
	for _, id := range []string{"many/1", "many/2"} { // of one trial
		name, err := groups.Make(id, driver.Limits{CPUSet: want})
		if err != nil {
			t.Fatal(err)
		}
		tree, ok := groups.trees.With("cpuset")
		if !ok {
			t.Skip("needs a tree with cpuset")
		}
		if got, err := os.ReadFile(filepath.Join(tree.Dir(name), "cpuset.cpus")); err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%s has the CPUs %q, %v", id, got, err)
		}
	}
	if err := errors.Join(groups.close(), session.remove()); err != nil {
		t.Error(err)
	}
}

func TestLevelJob(t *testing.T) {
	st := study.Study{Params: map[string]string{"time": "2s", "barrier": "shared"}}
	w := study.Workload{Name: "x", Kind: "unix-execl"}
	job, err := levelJob(st, w, study.Environment{Name: "n", Params: map[string]string{"copies": "1xcpus", "threads": "cpus"}}, 7)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(job.Args, "--copies=7") || !slices.Contains(job.Args, "--seconds=2") || job.Barrier != 7 || job.Together == nil || job.Length.Seconds() != 2 {
		t.Errorf("%+v", job)
	}
	shared := startBarrier(job, 3)
	if page := shared.Content; page[8]+page[11] != 21 || len(page) != 4096 || shared.Target != workload.UnixBarrier {
		t.Errorf("the page is for %v parties", page[8:12])
	}
	alone, err := levelJob(study.Study{}, w, study.Environment{}, 7)
	if err != nil || alone.Barrier != 0 || startBarrier(alone, 3) != nil || alone.Together != nil {
		t.Errorf("%+v, %v: no barrier was asked for", alone, err)
	}
}

// The page is let go once and for all: those who wait fail, those who run go on.
func TestAbortBarrier(t *testing.T) {
	for state, want := range map[byte]byte{0: 2, 1: 1} {
		file := filepath.Join(t.TempDir(), "page")
		page := workload.UnixBarrierPage(3)
		page[4] = state
		if err := os.WriteFile(file, page, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := abortBarrier(file); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file)
		if err != nil || got[4] != want || got[8] != page[8] || len(got) != len(page) {
			t.Errorf("state %d became %d, %v", state, got[4], err)
		}
	}
	cut := filepath.Join(t.TempDir(), "cut") // by a payload, which shares it
	if err := os.WriteFile(cut, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := abortBarrier(cut); err == nil || !strings.Contains(err.Error(), "a payload has cut") {
		t.Errorf("a page without its file: %v", err)
	}
	if err := abortBarrier("/nonexistent"); err == nil {
		t.Error("a page that is not there was let go")
	}
}

func TestBusy(t *testing.T) {
	judge := Busy(4)
	values := func(all, own, wall float64) map[string][]float64 {
		return map[string][]float64{sample.MachineCPU: {all}, sample.CPU: {own}, sample.Wall: {wall / 2, wall}}
	}
	for _, c := range []struct {
		values map[string][]float64
		warns  bool
	}{
		{values(1, 0.9, 1), false},
		{values(4, 3.9, 1), false},                                              // all its own work
		{values(2, 0.9, 1), true},                                               // more than a quarter of four CPUs
		{values(2, 0.9, 0.1), false},                                            // too short to tell
		{map[string][]float64{sample.Wall: {1}}, false},                         // nothing was read
		{map[string][]float64{sample.MachineCPU: {4}, sample.Wall: {1}}, false}, // its own use is not known
	} {
		if got := judge(c.values); (len(got) > 0) != c.warns || c.warns && !strings.HasPrefix(got[0].String(), "other processes used 28 %") {
			t.Errorf("%v: %q", c.values, got)
		}
	}
	one := values(2, 0.9, 0.5) // of many, one after another
	one[sample.Elapsed] = []float64{4}
	if got := judge(one); len(got) > 0 {
		t.Errorf("of 4 s of four CPUs others used 1.1: %q", got)
	}
	daemon := values(2, 0.9, 1)
	daemon[sample.DaemonCPU] = []float64{1}
	if got := judge(daemon); len(got) > 0 {
		t.Errorf("an engine's daemon is no stranger: %q", got)
	}
}

// Unix tests with short windows are judged by the last of them together; starts
// that are as short are not.
func TestBusyInShortWindows(t *testing.T) {
	for _, c := range []struct {
		name   string
		metric string
		all    []float64 // CPU time of the machine in each trial of 0.09 s, of which 0.09 is its own
		want   []string
	}{
		{"a busy machine", sample.UnixScore, []float64{0.18, 0.18, 0.17, 0.18}, []string{"", "", "48 % of the machine's CPU time during the last 3 trials", "48 %"}},
		{"one busy trial", sample.UnixScore, []float64{0.09, 0.09, 0.18, 0.09, 0.09, 0.09}, []string{"", "", "", "", "", ""}},
		{"starts", sample.Ready, []float64{0.18, 0.18, 0.18, 0.18}, []string{"", "", "", ""}},
	} {
		judge := Busy(2)
		for i, all := range c.all {
			var got string
			for _, w := range judge(map[string][]float64{sample.MachineCPU: {all}, sample.CPU: {0.09}, sample.Wall: {0.09}, c.metric: {1}}) {
				got += w.String()
			}
			if (got == "") != (c.want[i] == "") || !strings.Contains(got, c.want[i]) {
				t.Errorf("%s, trial %d: %q, want %q", c.name, i, got, c.want[i])
			}
		}
	}
}
