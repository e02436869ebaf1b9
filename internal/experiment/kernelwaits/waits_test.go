package kernelwaits

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/published"
)

// watchedRun is a cell with its watched twin, which takes longer by a factor.
func watchedRun(blocks int, factor float64) analysis.Input {
	cells := []study.Cell{{ID: "a", Target: "native"}, {ID: "a~locks", Target: "native", Probe: study.ProbeLocks, Unwatched: "a"}}
	in := analysis.Input{Cells: cells, Data: analysis.NewData(cells, 2*blocks)}
	for b := range blocks {
		wall := 1 + float64(b)/1000
		in.Data.Add(&sample.Record{Block: b, Cell: "a", Values: map[string][]float64{sample.Wall: {wall}}})
		in.Data.Add(&sample.Record{Block: b, Cell: "a~locks", Values: map[string][]float64{sample.Wall: {wall * factor * (1 + float64(b%2)/1000)}}})
	}
	return in
}

func directoryWait() profile.Profile {
	return profile.Profile{
		Elapsed: 2 * time.Second, Cost: time.Millisecond,
		Stacks: [][]string{{"down_write", "filename_create", "do_mkdirat"}, {"__mutex_lock", "cgroup_kn_lock_live", "cgroup_mkdir", "do_mkdirat"}},
		Waits: []profile.Wait{
			{Kind: profile.RWSem, Lock: 1, Stack: 0, Count: 1, Total: 3 * time.Second},
			{Kind: profile.Mutex, Lock: 2, Stack: 1, Count: 1, Total: time.Second},
		},
	}
}

func TestWaitsTellWhatWatchingCost(t *testing.T) {
	for _, test := range []struct {
		blocks int
		factor float64
		want   string // of the warning; "" for none
	}{
		{12, 1.01, ""}, {12, 1.2, "longer, more than 5 %"}, {2, 1.01, "it is not shown that watching cost less than 5 %"}, {0, 1, "is not known"},
	} {
		all, warnings := watchedCells(watchedRun(test.blocks, test.factor), map[string]profile.Profile{"a~locks": directoryWait()}, map[string]int{"a~locks": max(1, test.blocks)})
		if len(all) != 1 {
			t.Fatalf("%d cells", len(all))
		}
		w := all[0]
		if w.Cell != "a~locks" || w.Elapsed != 2 || w.Cost != 0.001 || len(w.Rows) != 2 || w.Rows[0].Name != profile.Directory || math.Abs(w.Flame.Value-4) > 1e-9 {
			t.Errorf("%+v", w)
		}
		if got := strings.Join(warnings, "\n"); test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%d blocks, ×%g: warnings %q, want %q", test.blocks, test.factor, got, test.want)
		}
		if test.blocks > 0 && (w.Overhead == nil || math.Abs(w.Overhead.Ratio/test.factor-1) > 0.002) {
			t.Errorf("overhead %+v, want %g", w.Overhead, test.factor)
		}
	}
}

func TestCellsWithoutATrialAreLeftOut(t *testing.T) {
	if all, warnings := watchedCells(watchedRun(2, 1), nil, nil); len(all)+len(warnings) != 0 {
		t.Errorf("%+v %q", all, warnings)
	}
}

// A run of a foreign tare may list no phases of a cycle: its section is made without them.
func TestChurnWithoutPhases(t *testing.T) {
	cells := []churnCell{{Cell: study.Cell{ID: "a", Workload: "w"}, Threads: 1}, {Cell: study.Cell{ID: "b", Workload: "w"}, Threads: 2}}
	in := analysis.Input{Data: analysis.NewData(nil, 0), Metrics: map[string][]sample.Metric{"w": {{Name: "cycles"}}}}
	for _, c := range cells {
		in.Data.Add(&sample.Record{Cell: c.ID, Values: map[string][]float64{"cycles": {7}}})
	}
	s := churnSection(churnOf(in, cells, nil, new(source)))
	if want := []string{"w: most cycles with 1 thread, 7.00/s; with 2 threads 7.00/s of cycles."}; !slices.Equal(s.Findings, want) {
		t.Errorf("%q, want %q", s.Findings, want)
	}
	if len(s.Figures) != 1 {
		t.Errorf("%d figures: only the cycles can be drawn", len(s.Figures))
	}
}

func TestChurnOf(t *testing.T) {
	s, err := published.Read(name, publishedFile, new(source))
	if err != nil {
		t.Fatal(err)
	}
	cell := func(id, probe string, threads int) churnCell {
		return churnCell{Cell: study.Cell{ID: id, Workload: "cgroup-v2", Probe: probe}, Kind: "churn-cgroup", Threads: threads}
	}
	cells := []churnCell{cell("t8", "", 8), cell("t1", "", 1), cell("none", "", 64), cell("t1~locks", study.ProbeLocks, 1), cell("t8~locks", study.ProbeLocks, 8)}
	in := analysis.Input{Data: analysis.NewData(nil, 0), Metrics: map[string][]sample.Metric{"cgroup-v2": {{Name: "cycles"}, {Name: "mkdir-rate"}, {Name: "mkdir-p50"}, {Name: "mkdir-p99"}, {Name: "mkdir-max"}}}}
	for b := range 6 {
		for id, cycles := range map[string]float64{"t1": 100, "t8": 400} {
			in.Data.Add(&sample.Record{Block: b, Cell: id, Values: map[string][]float64{"cycles": {cycles}, "mkdir-rate": {2 * cycles}, "mkdir-p50": {1e-3}, "mkdir-p99": {5e-3}, "mkdir-max": {9e-3}}})
		}
	}
	lone := directoryWait()
	lone.Waits = lone.Waits[1:]
	c := churnOf(in, cells, map[string]profile.Profile{"t1~locks": lone, "t8~locks": directoryWait()}, s)
	if len(c.Curves) != 1 || len(c.Curves[0].Points) != 2 {
		t.Fatalf("%+v", c.Curves)
	}
	for i, want := range []churnPoint{{Threads: 1, Rate: analysis.Summary{Median: 100}}, {Threads: 8, Rate: analysis.Summary{Median: 400}}} {
		p := c.Curves[0].Points[i]
		if p.Threads != want.Threads || p.Rate.Median != want.Rate.Median || len(p.Phases) != 1 || p.Phases[0] != (churnPhase{"mkdir", 2 * want.Rate.Median, 1e-3, 5e-3, 9e-3}) {
			t.Errorf("%+v", p)
		}
	}
	if want := []lockShare{{profile.Directory, 0.75}, {profile.CgroupMutex, 0.25}}; !slices.Equal(c.Curves[0].Locks, want) {
		t.Errorf("locks %v, want %v", c.Curves[0].Locks, want)
	}
	// The tree is of the most threads: three quarters for the directory, one for cgroup_mutex.
	here := map[string]float64{}
	var shares float64
	for _, b := range c.Tree {
		here[b.Path], shares = b.Here["cgroup-v2"], shares+b.PublishedWait
	}
	if here["mkdir → the directory's i_rwsem"] != 0.75 || here["mkdir → cgroup_mkdir → cgroup_mutex"] != 0.25 || math.Abs(shares-1) > 1e-9 {
		t.Errorf("%v, published shares sum up to %g", here, shares)
	}
	for i, want := range [][2]int{{1, 1}, {3, 2}, {2, 0}} { // nothing waited in cgroup_file_write
		if got := [2]int{c.Tree[i].PublishedRank, c.Tree[i].Rank["cgroup-v2"]}; got != want {
			t.Errorf("ranks of %s: %v, want %v", c.Tree[i].Path, got, want)
		}
	}
	if math.Abs(c.Tree[0].Published-0.3012) > 1e-9 {
		t.Errorf("published %g, want 30.12 %%", c.Tree[0].Published)
	}
}

// A flame graph is a figure of the section that its probe has, with all seconds.
func TestWaitsHaveAFlameGraph(t *testing.T) {
	w := waitsOf(study.ProbeLocks, "native", directoryWait())
	empty := waitsOf(study.ProbeLocks, "empty", profile.Profile{Elapsed: time.Second})
	all := waitsSections([]watchedCell{w, empty})
	if len(all) != 1 || len(all[0].Tables) != 2 || len(all[0].Figures) != 1 {
		t.Fatalf("%+v", all)
	}
	f := all[0].Figures[0]
	if f.Flame == nil || math.Abs(f.Flame.Frame.Value-4) > 1e-9 || len(f.Flame.Frame.Children) == 0 || !strings.Contains(f.Title, "native: waits by stack, 4.00 s") {
		t.Errorf("%+v", f)
	}
}

// One number of each part, so that a part that is silently not read shows.
func TestPublishedNumbersArrive(t *testing.T) {
	s, err := published.Read(name, publishedFile, new(source))
	if err != nil {
		t.Fatal(err)
	}
	if tree := s.CallTree; tree.Mkdirat.FilenameCreate["osq_lock"] != 22.95 || tree.Mkdirat.VFSMkdir["cgroup_mkdir"] != 16.84 || tree.Write["vfs_write"] != 30 {
		t.Errorf("%+v", tree)
	}
	if s.Samples != 676000 || s.Host.CPUs != 104 || s.Profile[1].Self != 57.06 {
		t.Errorf("%+v", s)
	}
}

// Kernels are targets: each has a curve of its own, named.
func TestCurvesOfSeveralTargets(t *testing.T) {
	cells := []churnCell{
		{Cell: study.Cell{ID: "a", Workload: "churn", Target: "qemu/microvm=debian/5.10"}, Threads: 2},
		{Cell: study.Cell{ID: "b", Workload: "churn", Target: "qemu/microvm=debian/6.12"}, Threads: 2},
	}
	if named(cells); cells[0].Name != "churn on qemu/microvm=debian/5.10" || cells[1].Name != "churn on qemu/microvm=debian/6.12" {
		t.Errorf("of two targets: %q and %q", cells[0].Name, cells[1].Name)
	}
	if named(cells[:1]); cells[0].Name != "churn" {
		t.Errorf("of one target: %q", cells[0].Name)
	}
}
