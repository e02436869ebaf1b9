package history

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// thirty are the runs of thirty days: ratios of 2 with 1 % of noise, times step from the
// twentieth day on.
func thirty(cell string, step float64, rng *rand.Rand) []Entry {
	var all []Entry
	for day := range 30 {
		log := math.Log(2) + 0.01*rng.NormFloat64()
		if day >= 20 {
			log += math.Log(step)
		}
		all = append(all, Entry{Run: fmt.Sprintf("run-%02d", day), At: time.Date(2026, 10, day+1, 3, 0, 0, 0, time.UTC), Study: "s", Cell: cell, Control: "host",
			Metric: sample.Metric{Name: "wall", Unit: sample.Seconds, Better: sample.Lower}, Series: cell, Machine: "m",
			Log: log, Low: log - 0.01, High: log + 0.01, Noise: 0.02, Margin: 0.02, Blocks: 12, Verdict: analysis.Slower})
	}
	return all
}

func TestChanges(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var entries []Entry
	for cell, step := range map[string]float64{"slower/runc": 1.08, "faster/runc": 0.9, "same/runc": 1, "tiny/runc": 1.015} {
		entries = append(entries, thirty(cell, step, rand.New(rand.NewPCG(3, uint64(len(cell)))))...)
	}
	noisy := thirty("noisy/runc", 1.08, rng)
	for i := range noisy {
		noisy[i].Log += 0.3 * rng.NormFloat64()
	}
	// Starts of 20 ms next to a host's of 0.2 ms: each run's control may be off by far, and
	// the step is plain all the same.
	coarse := thirty("coarse/runc", 1.6, rng)
	for i := range coarse {
		coarse[i].Log, coarse[i].Noise = coarse[i].Log+0.25*rng.NormFloat64(), 10
	}
	entries = append(entries, coarse...)
	rng.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	found := map[string]Change{}
	for _, c := range Changes(All(append(entries, noisy...))) {
		found[c.Cell] = c
	}
	if c := found["coarse/runc"]; !slices.Contains([]string{"run-19", "run-20", "run-21"}, c.After.Run) || c.Word != analysis.Slower {
		t.Errorf("coarse/runc is %s from %s on", c.Word, c.After.Run)
	}
	if len(found) != 3 {
		t.Errorf("changes of %v", found)
	}
	for cell, want := range map[string]struct {
		ratio float64
		word  analysis.Verdict
	}{"slower/runc": {1.08, analysis.Slower}, "faster/runc": {0.9, analysis.Faster}} {
		c := found[cell]
		if c.Before.Run != "run-19" || c.After.Run != "run-20" || c.Word != want.word || math.Abs(c.Ratio/want.ratio-1) > 0.02 || c.P > 0.05 ||
			c.Bounds.Low > c.Ratio || c.Bounds.High < c.Ratio {
			t.Errorf("%s: %+v", cell, c)
		}
	}
}

func TestFileIsReadAsWritten(t *testing.T) {
	var file bytes.Buffer
	written := thirty("start/runc", 1, rand.New(rand.NewPCG(1, 2)))
	for _, e := range written {
		line, err := e.Line()
		if err != nil {
			t.Fatal(err)
		}
		file.Write(line)
	}
	read, torn, err := Read(&file)
	if err != nil || torn != 0 || len(read) != 30 || read[7].Log != written[7].Log || !read[7].At.Equal(written[7].At) {
		t.Errorf("%d entries, %v", len(read), err)
	}
	if again := New(read, written); len(again) != 0 {
		t.Errorf("%d of the same runs are new", len(again))
	}
	if one := All(read); len(one) != 1 || len(one[0]) != 30 {
		t.Errorf("%d series", len(one))
	}
}

func TestReadRefuses(t *testing.T) {
	good, err := thirty("c", 1, rand.New(rand.NewPCG(1, 2)))[0].Line()
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"no JSON": "hello", "an empty entry": "{}", "ends out of order": strings.Replace(string(good), `"low":`, `"low":9e9,"was":`, 1),
		"a number too large": strings.Replace(string(good), `"log":`, `"log":1e999,"was":`, 1), "a long line": strings.Repeat("x", 2<<20),
	} {
		if got, _, err := Read(strings.NewReader(string(good) + bad + "\n")); err == nil {
			t.Errorf("%s: %d entries", name, len(got))
		}
	}
	if _, _, err := Read(strings.NewReader(strings.Repeat("\n", 3))); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("empty lines: %v", err)
	}
}

// A kill in a write leaves the beginning of a line, which blocked the history until it was
// cut off by hand. The end of another kind of file is not taken for one.
func TestTornLine(t *testing.T) {
	line, err := thirty("c", 1, rand.New(rand.NewPCG(1, 2)))[0].Line()
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(line) {
		got, torn, err := Read(bytes.NewReader(slices.Concat(line, line[:cut])))
		if err != nil || len(got) != 1 || torn != cut {
			t.Errorf("%d bytes: %d entries, %d torn, %v", cut, len(got), torn, err)
		}
	}
	for _, other := range []string{"ssh-ed25519 AAAA", `{"rum":"x"`, "{}"} {
		if _, _, err := Read(strings.NewReader(other)); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%s: %v", other, err)
		}
	}
}

// Of takes primary ratios that have an interval, and a series is that of a kind of
// machine: not of a number of blocks, nor of a version.
func TestOf(t *testing.T) {
	m := store.Manifest{ID: "r", Created: time.Unix(1, 0), Study: study.Study{ID: "s", Control: "host", Margin: 0.02, Workloads: []study.Workload{{Name: "w", Kind: "command"}}},
		Cells: []study.Cell{{ID: "runc/w", Target: "runc", Workload: "w"}}}
	row := func(label string, e *analysis.Effect) analysis.Row {
		return analysis.Row{Cell: label + "/w", Target: label, Label: label, Effect: e}
	}
	decided := &analysis.Effect{Ratio: 2, Interval: stats.Interval{Low: 1.5, High: 2.5, Level: 0.95, Method: stats.MethodOrder}, Blocks: 9, Verdict: analysis.Slower}
	table := analysis.Table{Group: "w", Workload: "w", Metric: sample.Metric{Name: "wall"}, Primary: true, Rows: []analysis.Row{
		row("host", nil), row("runc", decided), row("crun", &analysis.Effect{Ratio: 2, Interval: stats.None(2)}),
	}}
	secondary := table
	secondary.Primary = false
	got := Of(m, []analysis.Table{table, secondary}, nil)
	if len(got) != 1 || got[0].Cell != "w/runc" || math.Abs(got[0].Log-math.Log(2)) > 1e-12 {
		t.Fatalf("%+v", got)
	}
	same, other := m, m
	same.Study.Blocks, same.Study.Workloads = 99, []study.Workload{{Name: "w", Kind: "command", Blocks: 3}}
	other.Host.Kernel = "7.0"
	if a, b := Of(same, []analysis.Table{table}, nil)[0].Series, Of(other, []analysis.Table{table}, nil)[0].Series; a != got[0].Series || b == a {
		t.Errorf("series %s, with more blocks %s, on another kernel %s", got[0].Series, a, b)
	}
}

func FuzzRead(f *testing.F) {
	line, err := thirty("c", 1, rand.New(rand.NewPCG(1, 2)))[0].Line()
	f.Add(append(line, line...))
	f.Add([]byte("{}\n"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, torn, err := Read(bytes.NewReader(data))
		if err != nil {
			if errors.As(err, new(*limit.Error)) && len(data) < 1<<20 {
				t.Error(err)
			}
			return
		}
		if again, more, err := Read(bytes.NewReader(data[:len(data)-torn])); err != nil || more != 0 || len(again) != len(entries) {
			t.Errorf("without its torn line: %d entries of %d, %d torn, %v", len(again), len(entries), more, err)
		}
		for _, c := range Changes(All(entries)) {
			if math.IsNaN(c.Ratio) || c.P > 1 {
				t.Errorf("%+v", c)
			}
		}
	})
}

// In a large history one series that has changed is still found, by what is worse for its
// metric; and series that are too short for a step do not count.
func TestChangesAmongMany(t *testing.T) {
	score := thirty("score/runc", 1/1.5, rand.New(rand.NewPCG(5, 6)))
	for i := range score {
		score[i].Metric = sample.Metric{Name: sample.UnixScore, Unit: sample.Count, Better: sample.Higher}
	}
	for n := range 400 {
		other := thirty(fmt.Sprintf("other/%d", n), 1, rand.New(rand.NewPCG(7, uint64(n))))
		days := 3
		if n < 300 {
			days = 6
		}
		score = append(score, other[:days]...)
	}
	found := slices.DeleteFunc(Changes(All(score)), func(c Change) bool { return c.Cell != "score/runc" })
	if len(found) != 1 || !found[0].Worse() || found[0].P > 0.05 {
		t.Errorf("a score that fell by a third: %+v", found)
	}
}
