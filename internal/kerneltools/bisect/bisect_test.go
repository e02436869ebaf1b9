package bisect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/kerneltools/steplog"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

const machine = "a/vm"

// world makes runs of kernels whose speeds are planted.
type world struct {
	dir      string
	speed    map[string]float64 // by kernel; 0 does not boot
	accel    map[string]string  // by kernel; "" is emulated
	noise    float64
	asked    [][]string
	earlier  []string // runs that were gone on with
	killAt   int      // the run in which the process is killed, from 1; 0 for none
	estimate time.Duration
	now      time.Time
}

func (w *world) Tell(int, int, []string) {}
func (w *world) Told(Step)               {}

var errKilled = errors.New("killed")

func (w *world) Measure(_ context.Context, kernels []string, earlier string, left time.Duration, begun func(string) error) (*store.Run, error) {
	if w.estimate > left {
		return nil, &BudgetError{w.estimate, left}
	}
	w.now = w.now.Add(w.estimate)
	w.asked = append(w.asked, kernels)
	if earlier != "" {
		w.earlier = append(w.earlier, earlier)
	}
	run, err := w.run(kernels)
	if err != nil {
		return nil, err
	}
	if err := begun(run.Manifest().ID); err != nil {
		return nil, err
	}
	if w.killAt == len(w.asked) {
		return nil, errKilled
	}
	return run, run.Close()
}

// run is a run of twelve blocks.
func (w *world) run(kernels []string) (*store.Run, error) {
	const blocks = 12
	m := store.Manifest{Tool: "test", Metrics: map[string][]sample.Metric{"cgroups": {sample.In(sample.Cycles, sample.PerSecond)}},
		Targets: map[string]driver.Facts{}, LeftOut: map[string]string{},
		Study: study.Study{ID: "kernels", Title: "Kernels", Control: machine + "=" + kernels[0], Blocks: blocks, Workloads: []study.Workload{{Name: "cgroups", Kind: "churn-cgroup"}}}}
	var speeds []float64
	for i, k := range kernels {
		target := machine + "=" + k
		m.Study.Targets = append(m.Study.Targets, target)
		if w.speed[k] == 0 {
			m.LeftOut[target] = "the guest's kernel panicked"
			continue
		}
		accel := w.accel[k]
		if accel == "" {
			accel = emulated
		}
		m.Targets[target] = driver.Facts{Notes: map[string]string{driver.NoteAccel: accel}}
		m.Cells = append(m.Cells, study.Cell{ID: target + "/cgroups", Target: target, Workload: "cgroups", Group: "cgroups", Copies: 1, Control: i == 0})
		speeds = append(speeds, w.speed[k])
	}
	m.Study, m.Trials = m.Study.WithDefaults(), blocks*len(m.Cells)
	run, err := store.Create(w.dir, m)
	if err != nil {
		return nil, err
	}
	for block := range blocks {
		for i, c := range m.Cells {
			value := speeds[i] * (1 + w.noise*float64((5*block+7*i)%11-5))
			if err := run.Append(sample.Record{Seq: block*len(m.Cells) + i, Block: block, Cell: c.ID, Values: map[string][]float64{sample.Cycles: {value}}}); err != nil {
				return nil, err
			}
		}
	}
	return run, nil
}

func bisection(t *testing.T, w *world, kernels ...string) *Bisection {
	t.Helper()
	w.dir = t.TempDir()
	b := &Bisection{Question: Question{Machine: machine, Workload: "cgroups", Metric: sample.Cycles, Looks: Looks(len(kernels))},
		Chain: Chain{Names: kernels}, Bench: w, Budget: time.Hour, Now: func() time.Time { return w.now }}
	b.Log = openLog(t, filepath.Join(w.dir, LogName))
	return b
}

func openLog(t *testing.T, name string) *steplog.Log[Step] {
	t.Helper()
	l, err := steplog.Open[Step](name, "this search", "kernels")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// speeds gives kernels k0, k1, ... their speeds.
func speeds(of ...float64) (map[string]float64, []string) {
	all, names := map[string]float64{}, make([]string, len(of))
	for i, speed := range of {
		names[i] = fmt.Sprintf("/k/%d/bzImage", i)
		all[names[i]] = speed
	}
	return all, names
}

func TestRun(t *testing.T) {
	for name, c := range map[string]struct {
		speeds  []float64
		good    int
		bad     int
		between int
		ended   string
	}{
		"a step":            {[]float64{100, 101, 100, 60, 60, 61}, 2, 3, 0, ""},
		"faster":            {[]float64{100, 210, 205, 200}, 0, 1, 0, ""},
		"at the end":        {[]float64{100, 100, 100, 50}, 2, 3, 0, ""},
		"neighbours":        {[]float64{100, 50}, 0, 1, 0, ""},
		"two steps":         {[]float64{100, 100, 95, 50, 50}, 2, 3, 0, ""},
		"one does not boot": {[]float64{100, 0, 100, 50, 50}, 2, 3, 0, ""},
		"none boots":        {[]float64{100, 0, 0, 0, 50}, 0, 4, 3, ""},
		"no difference":     {[]float64{100, 100, 100}, 0, 2, 0, "does not certainly differ"},
		"an end fails":      {[]float64{100, 100, 0}, 0, 2, 0, "cannot be measured: the guest's kernel panicked"},
	} {
		t.Run(name, func(t *testing.T) {
			all, names := speeds(c.speeds...)
			w := &world{speed: all, noise: 0.002}
			found, err := bisection(t, w, names...).Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if found.Good != names[c.good] || found.Bad != names[c.bad] || len(found.Between) != c.between || !strings.Contains(found.Ended, c.ended) || (found.Ended == "") != (c.ended == "") {
				t.Errorf("from %s to %s, between them %v, ended %q", found.Good, found.Bad, found.Between, found.Ended)
			}
			if c.ended == "" && (found.Change == nil || !found.Change.Verdict.Shown() || !found.Emulated) {
				t.Errorf("the change is %+v, emulated %v", found.Change, found.Emulated)
			}
		})
	}
}

// In the middle between both ends a candidate is open; so is all in noise, and what ran
// under another acceleration is skipped.
func TestRunUnsettled(t *testing.T) {
	all, names := speeds(100, 100*0.7071, 50)
	w := &world{speed: all, noise: 0.004}
	found, err := bisection(t, w, names...).Run(t.Context())
	if err != nil || len(found.Between) != 1 || found.Steps[1].Answer != Open || !strings.Contains(found.Steps[1].Why, "the middle") {
		t.Errorf("in the middle: %+v, %v", found, err)
	}
	all, names = speeds(100, 100, 90)
	w = &world{speed: all, noise: 0.1}
	found, err = bisection(t, w, names...).Run(t.Context())
	if err != nil || found.Ended == "" || found.Whole == nil || found.Whole.Bound == "" || len(w.asked) != 1 {
		t.Errorf("in noise: %+v, %v", found, err)
	}
	all, names = speeds(100, 100, 50)
	w = &world{speed: all, noise: 0.002, accel: map[string]string{names[1]: "kvm"}}
	found, err = bisection(t, w, names...).Run(t.Context())
	if err != nil || len(found.Between) != 1 || found.Steps[1].Answer != Skipped || !strings.Contains(found.Steps[1].Why, "never compared") {
		t.Errorf("another acceleration: %+v, %v", found, err)
	}
}

// A search that is killed in any of its runs, with its log cut short, goes on with that
// run, measures no step twice, and comes to the same.
func TestRunGoesOn(t *testing.T) {
	all, names := speeds(100, 100, 100, 100, 100, 50, 50, 50, 50)
	whole := &world{speed: all, noise: 0.002}
	want, err := bisection(t, whole, names...).Run(t.Context())
	if err != nil || want.Bad != names[5] {
		t.Fatalf("%+v, %v", want, err)
	}
	for killAt := 1; killAt <= len(whole.asked); killAt++ {
		w := &world{speed: all, noise: 0.002, killAt: killAt}
		b := bisection(t, w, names...)
		if _, err := b.Run(t.Context()); !errors.Is(err, errKilled) {
			t.Fatalf("killed in run %d: %v", killAt, err)
		}
		if err := b.Log.Close(); err != nil {
			t.Fatal(err)
		}
		log := filepath.Join(w.dir, LogName)
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(log, append(text, `{"kernels":["/k`...), 0o644); err != nil {
			t.Fatal(err)
		}
		w.killAt = 0
		b.Log = openLog(t, log)
		found, err := b.Run(t.Context())
		if err != nil || found.Good != want.Good || found.Bad != want.Bad || len(found.Steps) != len(want.Steps) {
			t.Errorf("after a kill in run %d: %+v, %v", killAt, found, err)
		}
		again := slices.Delete(slices.Clone(w.asked), killAt-1, killAt)
		if len(w.earlier) != 1 || !slices.EqualFunc(again, whole.asked, slices.Equal) {
			t.Errorf("after a kill in run %d it went on with %v, and measured %v; want %v", killAt, w.earlier, w.asked, whole.asked)
		}
	}
}

// The budget ends a search before a step, with what is known.
func TestRunBudget(t *testing.T) {
	all, names := speeds(100, 100, 100, 50, 50)
	w := &world{speed: all, noise: 0.002, estimate: 25 * time.Minute}
	b := bisection(t, w, names...)
	found, err := b.Run(t.Context())
	if err != nil || len(w.asked) != 2 || found.Good != names[2] || found.Bad != names[4] || !strings.Contains(found.Ended, "about 25m0s, and 10m0s of the budget are left") {
		t.Errorf("%+v after %d runs, %v", found, len(w.asked), err)
	}
}

// A kernel that cannot be made is skipped; every other error ends the search.
func TestChain(t *testing.T) {
	all, names := speeds(100, 100, 50, 50)
	w := &world{speed: all, noise: 0.002}
	b := bisection(t, w, names...)
	b.Chain.Kernel = func(_ context.Context, at int) (string, error) {
		if at == 1 {
			return "", &SkipError{"its build failed"}
		}
		return names[at], nil
	}
	b.Chain.With = [][]string{nil, {"CONFIG_A=y"}, {"CONFIG_B=y", "CONFIG_C=n"}, {"CONFIG_D=y"}}
	found, err := b.Run(t.Context())
	if err != nil || found.Steps[1].Why != "its build failed" || found.Bad != names[2] || len(found.Between) != 1 || !slices.Equal(found.With, b.Chain.With[2]) {
		t.Errorf("%+v, %v", found, err)
	}
	b = bisection(t, w, names...) // an end that cannot be made ends the search, with the reason
	b.Chain.Kernel = func(_ context.Context, at int) (string, error) {
		if at == 3 {
			return "", &SkipError{"its build failed"}
		}
		return names[at], nil
	}
	if found, err := b.Run(t.Context()); err != nil || found.Ended != "its build failed" || len(found.Steps) != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	b = bisection(t, w, names...)
	b.Chain.Kernel = func(context.Context, int) (string, error) { return "", os.ErrPermission }
	if _, err := b.Run(t.Context()); !errors.Is(err, os.ErrPermission) {
		t.Errorf("%v", err)
	}
}

func TestKernels(t *testing.T) {
	releases := func(context.Context) ([]string, error) {
		return []string{"debian/4.19", "debian/5.10", "debian/6.1", "debian/6.12", "debian/6.16"}, nil
	}
	for _, c := range []struct {
		good, bad string
		between   []string
		want, err string
	}{
		{"debian/5.10", "debian/6.16", nil, "debian/5.10 debian/6.1 debian/6.12 debian/6.16", ""},
		{"debian/6.12", "debian/5.10", nil, "debian/6.12 debian/6.1 debian/5.10", ""},
		{"debian/5.10", "debian/6.1", nil, "debian/5.10 debian/6.1", ""},
		{"debian/5.10", "debian/6.12", []string{"debian/5.10", "debian/6.9", "debian/6.1"}, "debian/5.10 debian/6.9 debian/6.1 debian/6.12", ""},
		{"debian/5.10", "debian/6.12", []string{"debian/6.1", "debian/6.1"}, "", "debian/6.1 is named twice"},
		{"debian/6.1", "debian/6.1", nil, "", "named as the good and as the bad"},
		{"debian/6.1", t.TempDir(), nil, "", "is no regular file"},
		{"debian/6.1", "debian/6.12", []string{t.TempDir()}, "", "no kernel for this machine is in"},
		{"debian/6.1", "/dev/null", nil, "", "/dev/null"},
	} {
		got, err := Kernels(t.Context(), c.good, c.bad, c.between, releases)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || err == nil && strings.Join(got, " ") != c.want {
			t.Errorf("%s to %s by %v: %v, %v; want %s%s", c.good, c.bad, c.between, got, err, c.want, c.err)
		}
	}
}

// image writes a file that looks like a kernel of this machine.
func image(t *testing.T, path, version string) string {
	t.Helper()
	data := make([]byte, 8192)
	switch runtime.GOARCH {
	case "amd64":
		copy(data[0x202:], "HdrS")
	case "arm64":
		copy(data[56:], "ARM\x64")
	case "riscv64":
		copy(data[56:], "RSC\x05")
	default:
		t.Skip("no kernel of " + runtime.GOARCH + " is as simple")
	}
	copy(data[4096:], "Linux version "+version+" (by a test)")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestImagesInADirectory: of a directory, the images between the ends are taken, from the
// good one to the bad one.
func TestImagesInADirectory(t *testing.T) {
	dir := t.TempDir()
	at := map[string]string{}
	for _, v := range []string{"6.1.7", "5.10.3", "6.12.1", "5.4.0", "6.6.2"} {
		at[v] = image(t, filepath.Join(dir, "vmlinuz-"+v), v)
	}
	outside := image(t, filepath.Join(t.TempDir(), "bzImage"), "5.7.0")
	for _, c := range []struct {
		good, bad string
		want      []string
	}{
		{at["5.10.3"], at["6.6.2"], []string{at["5.10.3"], at["6.1.7"], at["6.6.2"]}},
		{at["6.12.1"], outside, []string{at["6.12.1"], at["6.6.2"], at["6.1.7"], at["5.10.3"], outside}},
		{"debian/6.1", "debian/6.12", []string{"debian/6.1", at["6.1.7"], at["6.6.2"], "debian/6.12"}},
	} {
		got, err := Kernels(t.Context(), c.good, c.bad, []string{dir}, nil)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s to %s: %v, %v; want %v", c.good, c.bad, got, err, c.want)
		}
	}
}
