package fleet_test

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/fleet"
	"github.com/tarelab/tare/internal/fleet/fleettest"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/store"
)

// grow makes a fleet of n machines, each changed by edit.
func grow(t testing.TB, n int, edit func(i int, m *fleettest.Machine)) string {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		m := fleettest.Machine{Host: fleettest.Host(i), Ratios: map[string]float64{"native": 2 * math.Exp(0.01*math.Sin(float64(7*i)))}, Noise: 0.004, Seed: uint64(i + 1)}
		edit(i, &m)
		if _, err := fleettest.Make(dir, m); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func as(int, *fleettest.Machine) {}

func readFleet(t testing.TB, dir string, by ...string) fleet.Report {
	t.Helper()
	r, err := fleet.Read(dir, by)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestVerdicts(t *testing.T) {
	ratio := func(of func(i int) float64) func(int, *fleettest.Machine) {
		return func(i int, m *fleettest.Machine) { m.Ratios["native"] = of(i) }
	}
	for want, c := range map[fleet.Verdict]struct {
		machines int
		edit     func(int, *fleettest.Machine)
		word     string
	}{
		fleet.Everywhere:    {6, as, "slower"},
		fleet.SameThere:     {8, func(_ int, m *fleettest.Machine) { m.Ratios["native"], m.Noise = 1, 0.001 }, ""},
		fleet.OnAverage:     {8, ratio(func(i int) float64 { return 1.05 + 0.03*float64(i%4) - 0.04 }), "slower"},
		fleet.Depends:       {6, ratio(func(i int) float64 { return []float64{1.4, 0.7}[i%2] }), ""},
		fleet.Open:          {3, ratio(func(i int) float64 { return []float64{1, 1.001, 1.06}[i] }), ""},
		fleet.NotComparable: {2, as, ""},
	} {
		r := readFleet(t, grow(t, c.machines, c.edit))
		if len(r.Cells) != 1 || r.Cells[0].Verdict != want || string(r.Cells[0].Word) != c.word || r.Cells[0].Why == "" {
			t.Errorf("%s: %+v", want, r.Cells)
		}
		if all := r.Cells[0].All; (all == nil) != (c.machines < 3) {
			t.Errorf("%s: the mean is %+v", want, all)
		}
	}
}

// A fleet of two has no mean in any format.
func TestNoMeanBelowThree(t *testing.T) {
	r := readFleet(t, grow(t, 2, as))
	var text, csv bytes.Buffer
	paper := report.Paper{Title: "F", Sections: r.Sections(), Warnings: r.Warnings, Rows: r.Rows(), Data: r}
	if err := errors.Join(report.WritePaper(&text, report.FormatText, paper, report.Options{}), report.WritePaper(&csv, report.FormatCSV, paper, report.Options{})); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "a mean over machines needs 3") || strings.Contains(text.String(), "mean of") || strings.Contains(text.String(), "Price list") || !strings.Contains(csv.String(), "fleet,,,,start,native,ready,lower,2,2,,,,,,,,,,not comparable") {
		t.Errorf("%s\n%s", text.String(), csv.String())
	}
}

func TestUnlikeMachineIsNamedAndStays(t *testing.T) {
	r := readFleet(t, grow(t, 8, func(i int, m *fleettest.Machine) {
		if i == 5 {
			m.Ratios["native"] = 3
		}
	}))
	c := r.Cells[0]
	for _, v := range c.Values {
		if v.Unlike != (v.Machine == "node5") {
			t.Errorf("%s: unlike %v, p %g", v.Machine, v.Unlike, v.P)
		}
	}
	if c.All.Machines != 8 || c.Without == nil || c.Without.Machines != 7 || c.Without.Next.High-c.Without.Next.Low > (c.All.Next.High-c.All.Next.Low)/2 {
		t.Errorf("all %+v, without %+v", c.All, c.Without)
	}
}

func TestGroups(t *testing.T) {
	dir := grow(t, 7, func(i int, m *fleettest.Machine) {
		if i%2 == 0 && i < 6 {
			m.Host.CPU, m.Ratios["native"] = "Intel Xeon", 3
		}
		if i == 6 {
			m.Host.CPU = "Neoverse-N1"
		}
		m.Host.Microcode = string(rune('a' + i%3))
	})
	r := readFleet(t, dir)
	c := r.Cells[0]
	if len(r.Groups) != 3 || len(c.Groups) != 3 || len(c.Contrast) != 1 || !c.Contrast[0].Differs || math.Abs(math.Log(c.Contrast[0].Ratio/1.5)) > 0.03 {
		t.Errorf("%+v\n%+v\n%+v", r.Groups, c.Groups, c.Contrast)
	}
	for _, g := range c.Groups {
		if (g.Over == nil) != (g.Machines < 3) {
			t.Errorf("%+v", g)
		}
	}
	var facts []string
	for _, d := range r.Differ {
		facts = append(facts, d.Fact)
	}
	if !slices.Equal(facts, []string{"cpu", "microcode"}) {
		t.Errorf("facts that differ: %q", facts)
	}
	if by := readFleet(t, dir, "microcode"); len(by.Groups) != 3 || by.Groups[0].Facts != "microcode a" {
		t.Errorf("%+v", by.Groups)
	}
	if _, err := fleet.Read(dir, []string{"colour"}); err == nil || !strings.Contains(err.Error(), `no fact "colour"`) {
		t.Errorf("%v", err)
	}
	if _, err := fleet.Read(dir, []string{"kernl"}); err == nil || !strings.Contains(err.Error(), `did you mean "kernel"?`) {
		t.Errorf("%v", err)
	}
}

// Of several runs of one machine the last whole one is used, and other bits are not pooled.
func TestWhatIsLeftOut(t *testing.T) {
	dir := grow(t, 7, func(i int, m *fleettest.Machine) {
		switch i {
		case 4: // an older run of node0, which is slower
			m.Host, m.At, m.Ratios["native"] = fleettest.Host(0), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), 9
		case 5: // a newer one that was cut off
			m.Host, m.At, m.Ratios["native"], m.Cut = fleettest.Host(0), time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC), 9, 5
		case 6:
			m.Image, m.Ratios["native"] = "sha256:other", 9
		}
	})
	if err := os.Mkdir(filepath.Join(dir, "runs", "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := readFleet(t, dir)
	why := ""
	for _, l := range r.LeftOut {
		why += l.Why + "\n"
	}
	if len(r.Machines) != 4 || len(r.LeftOut) != 4 || strings.Count(why, "attempts are not mixed") != 2 || !strings.Contains(why, "other bits") || !strings.Contains(why, "manifest.json") {
		t.Errorf("%d machines; %+v", len(r.Machines), r.LeftOut)
	}
	if c := r.Cells[0]; c.All.Range.High > 2.1 {
		t.Errorf("%+v", c.All)
	}
}

// A machine whose run gives no verdict is shown, counted and not averaged.
func TestRefusedMachine(t *testing.T) {
	r := readFleet(t, grow(t, 5, func(i int, m *fleettest.Machine) {
		if i == 2 {
			m.Blocks, m.Ratios["native"] = 2, 9
		}
	}))
	c := r.Cells[0]
	if c.All.Machines != 4 || c.Of != 5 || len(c.Values) != 5 || c.Refused == nil || c.Refused.Machines != 5 || c.All.Range.High > 2.1 || !strings.Contains(c.Values[2].Refused, "too few") {
		t.Errorf("%+v", c)
	}
}

func TestClonesAreWarnedOf(t *testing.T) {
	r := readFleet(t, grow(t, 3, func(i int, m *fleettest.Machine) {
		m.Host.Machine = "same"
	}))
	if len(r.Machines) != 3 || !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "clones") }) {
		t.Errorf("%d machines, %q", len(r.Machines), r.Warnings)
	}
}

func TestAdd(t *testing.T) {
	from, dir := t.TempDir(), filepath.Join(t.TempDir(), "lab")
	run := func(edit func(*fleettest.Machine)) *store.Run {
		m := fleettest.Machine{Host: fleettest.Host(1), Ratios: map[string]float64{"native": 2}, Seed: 1}
		edit(&m)
		made, err := fleettest.Make(from, m)
		if err != nil {
			t.Fatal(err)
		}
		r, err := store.Open(made)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := run(func(*fleettest.Machine) {})
	added, err := fleet.AddRun(dir, first)
	if err != nil || filepath.Base(added) != first.Manifest().ID {
		t.Fatalf("%q, %v", added, err)
	}
	if _, err := fleet.AddRun(dir, first); !errors.Is(err, store.ErrThere) {
		t.Errorf("again: %v", err)
	}
	if _, err := fleet.AddRun(dir, run(func(m *fleettest.Machine) { m.Host = fleettest.Host(2) })); err != nil {
		t.Errorf("another machine in the same second: %v", err)
	}
	if _, err := fleet.AddRun(dir, run(func(m *fleettest.Machine) { m.Study, m.Host = "other", fleettest.Host(3) })); err == nil || !strings.Contains(err.Error(), "is of study other") {
		t.Errorf("another study: %v", err)
	}
	if _, err := fleet.Add(dir, strings.NewReader("hello")); !errors.Is(err, store.ErrNotRun) {
		t.Errorf("no run: %v", err)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "runs")); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
	if _, err := fleet.Read(t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "fleet add") {
		t.Errorf("no fleet: %v", err)
	}
}

// What machines are called and what runs hold is a stranger's.
func TestHostileFleet(t *testing.T) {
	r := readFleet(t, grow(t, 4, func(i int, m *fleettest.Machine) {
		m.Host.Hostname = "\x1b[2J</script><b>" + strings.Repeat("x", 5000)
		m.Host.CPU = "=cmd()" + strings.Repeat("y", 5000) + string(rune('a'+i))
	}))
	for _, format := range report.PaperFormats() {
		var out bytes.Buffer
		err := report.WritePaper(&out, format, report.Paper{Title: "F", About: r.About(), Sections: r.Sections(), Rows: r.Rows(), Data: r, Warnings: r.Warnings}, report.Options{Width: 80})
		if err != nil || bytes.Contains(out.Bytes(), []byte("\x1b")) || format == report.FormatHTML && bytes.Contains(out.Bytes(), []byte("</script><b>")) || out.Len() > 1<<20 {
			t.Errorf("%s: %d bytes, %v", format, out.Len(), err)
		}
	}
}

func TestFiguresAndTables(t *testing.T) {
	r := readFleet(t, grow(t, 80, func(i int, m *fleettest.Machine) {
		if i == 40 {
			m.Ratios["native"] = 5
		}
	}))
	var forests []finding.Figure
	for _, s := range r.Sections() {
		for _, f := range s.Figures {
			if f.Forest != nil {
				forests = append(forests, f)
			}
		}
		for _, table := range s.Tables {
			for _, row := range table.Rows {
				if len(row) != len(table.Head) {
					t.Errorf("%s: %q", table.Title, row)
				}
			}
		}
	}
	last := forests[len(forests)-1].Forest.Rows
	if len(forests) != 2 || len(last) < 20 || len(last) > 62 || last[len(last)-1].Shape != finding.Diamond || last[len(last)-1].NextHigh == 0 ||
		!slices.ContainsFunc(last, func(r finding.ForestRow) bool { return r.Name == "node40" }) {
		t.Errorf("%d forests, the last with %d rows", len(forests), len(last))
	}
	for _, row := range r.Rows()[1:] {
		if len(row) != len(r.Rows()[0]) {
			t.Errorf("%q", row)
		}
	}
}

// A thousand machines are read in little memory; how long it takes is measured by hand
// (docs/fleet.md).
func TestThousandMachines(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a thousand runs")
	}
	t.Setenv("TMPDIR", "/dev/shm") // a disk would wait for each file
	dir := grow(t, 1000, as)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	r := readFleet(t, dir)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); len(r.Machines) != 1000 || r.Cells[0].All.Machines != 1000 || held > 64<<20 {
		t.Errorf("%d machines, %d bytes", len(r.Machines), held)
	}
	runtime.KeepAlive(r)
}
