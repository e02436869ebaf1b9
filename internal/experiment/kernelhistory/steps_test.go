package kernelhistory

import (
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// guest is what a run knows of a machine's target.
var guest = driver.Facts{Notes: map[string]string{driver.NoteGuestKernel: "sha256:1"}}

func TestMachinesOf(t *testing.T) {
	m := store.Manifest{
		Study: study.Study{Targets: []string{"runc=/a/runc", "a/vm=debian/5.10", "b/vm=debian/6.1", "runc=/b/runc", "a/vm=/k/bzImage", "a/vm=debian/6.12", "b/vm"}},
		Targets: map[string]driver.Facts{"runc=/a/runc": {}, "runc=/b/runc": {}, "a/vm=debian/5.10": guest, "b/vm=debian/6.1": guest,
			"a/vm=/k/bzImage": guest, "b/vm": guest}, // a/vm=debian/6.12 did not work there
	}
	got := machinesOf(m)
	if len(got) != 1 || got[0].name != "a/vm" || !slices.Equal(got[0].targets, []string{"a/vm=debian/5.10", "a/vm=/k/bzImage"}) {
		t.Errorf("machines %+v: want a/vm alone, with its two kernels: two runtimes are no kernels, and one kernel is no history", got)
	}
	if applies(store.Manifest{}) {
		t.Error("an empty run has a history of kernels")
	}
}

func TestKernelOf(t *testing.T) {
	for target, want := range map[string]string{"a/vm": "", "a/vm=debian/6.1": "debian/6.1", "a/vm=/k/bzImage@bridge": "/k/bzImage"} {
		if got := kernelOf(target); got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
}

func TestSection(t *testing.T) {
	cycles := sample.In(sample.Cycles, sample.PerSecond)
	changed := func(to string, ratio float64, v analysis.Verdict, size string) step {
		return step{Group: "cgroups", Machine: "a/vm", Metric: cycles.Name, metric: cycles, From: "debian/5.10", To: to, Judged: true,
			Effect: &analysis.Effect{Ratio: ratio, Interval: stats.Interval{Low: 0.9 * ratio, High: 1.1 * ratio, Level: 0.95, Method: stats.MethodOrder}, Verdict: v, Size: size}}
	}
	part := changed("debian/6.1", 0.5, "", "")
	part.Judged, part.metric = false, sample.PhaseP50("mkdir")
	part.Metric = part.metric.Name
	s := section([]step{
		changed("debian/6.1", 1.3, analysis.Faster, "30 % faster"),
		changed("/srv/kernels/new/bzImage", 0.4, analysis.Slower, "2.5 times slower"),
		changed("debian/6.12", 1.01, analysis.Open, ""), part,
	})
	want := []string{
		"cgroups on a/vm: 2.5 times slower since new/bzImage (cycles ×0.400 [0.360, 0.440] against debian/5.10).",
		"cgroups on a/vm: 30 % faster since debian/6.1 (cycles ×1.30 [1.17, 1.43] against debian/5.10).",
	}
	if !slices.Equal(s.Findings, want) {
		t.Errorf("findings, the largest first:\n%s\nwant:\n%s", strings.Join(s.Findings, "\n"), strings.Join(want, "\n"))
	}
	if len(s.Tables) != 2 || len(s.Tables[0].Head) != 5 || len(s.Tables[0].Rows) != 1 || s.Tables[1].Rows[0][1] != "mkdir-p50" {
		t.Errorf("tables %+v", s.Tables)
	}
	if none := section([]step{changed("debian/6.12", 1.01, analysis.Open, "")}); none.Findings[0] != "No change from one kernel to the next is certain." {
		t.Errorf("findings of an open run: %q", none.Findings)
	}
}

// The parts of a cycle have a ratio and an interval, and no verdict.
func TestPartsAreDescribed(t *testing.T) {
	a, b, part := "qemu/microvm=debian/6.1", "qemu/microvm=debian/6.12", sample.PhaseP50("mkdir")
	cells := []study.Cell{{ID: "w/a", Target: a, Workload: "w", Group: "w", Copies: 1, Control: true}, {ID: "w/b", Target: b, Workload: "w", Group: "w", Copies: 1}}
	run, err := store.Create(t.TempDir(), store.Manifest{Tool: "test", Trials: 16, Cells: cells, Targets: map[string]driver.Facts{a: guest, b: guest},
		Metrics: map[string][]sample.Metric{"w": {sample.In(sample.Cycles, sample.PerSecond), part}},
		Study:   study.Study{ID: "x", Title: "x", Targets: []string{a, b}, Control: a, Blocks: 8, Workloads: []study.Workload{{Name: "w", Kind: "churn-cgroup"}}}.WithDefaults()})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 16 {
		noise, second := float64(n/2%3), float64(n%2)
		values := map[string][]float64{sample.Cycles: {1000 + noise + 500*second}, part.Name: {1e-4 * (1 + noise/100 + second)}}
		if err := run.Append(sample.Record{Seq: n, Block: n / 2, Cell: cells[n%2].ID, Values: values}); err != nil {
			t.Fatal(err)
		}
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	read, err := store.Open(run.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	in, err := experiment.List{Experiment()}.Report(read)
	if err != nil {
		t.Fatal(err)
	}
	var shown string
	for _, s := range in.Sections {
		for _, table := range s.Tables {
			for _, row := range table.Rows {
				if row[1] == part.Name {
					shown = row[len(row)-1]
				}
			}
		}
	}
	if !strings.HasPrefix(shown, "×2.0 [") && !strings.HasPrefix(shown, "×1.9") && !strings.HasPrefix(shown, "×2.00 [") {
		t.Errorf("twice the time of a part is shown as %q", shown)
	}
}
