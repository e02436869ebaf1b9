// Package history keeps what runs found over time, one line for each run, cell and
// metric, and finds where a series changed. It is pure: the caller reads and writes.
package history

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// Entry is one ratio that one run found: a line of the file.
type Entry struct {
	Run     string        `json:"run"`
	At      time.Time     `json:"at"` // when the run was made
	Study   string        `json:"study"`
	Cell    string        `json:"cell"` // GROUP/TARGET
	Control string        `json:"control"`
	Metric  sample.Metric `json:"metric"`
	// Series is a digest of what must be the same for two runs to be of one series:
	// study, workload, environment, control, image and class of the machine.
	Series  string `json:"series"`
	Machine string `json:"machine"` // the class: CPU, number of CPUs, kernel, cgroups
	// Log is the natural logarithm of the ratio to the run's own control, which divides
	// out what the machine did; Low and High bound its interval.
	Log     float64           `json:"log"`
	Low     float64           `json:"low"`
	High    float64           `json:"high"`
	Noise   float64           `json:"noise"`  // of the run's table, as a ratio minus 1; 0 where unknown
	Margin  float64           `json:"margin"` // of the study, as a ratio minus 1
	Blocks  int               `json:"blocks"`
	Verdict analysis.Verdict  `json:"verdict"`
	Version string            `json:"version,omitempty"` // of the target
	Digest  string            `json:"digest,omitempty"`  // of the target's program
	Note    map[string]string `json:"note,omitempty"`    // the user's, such as commit=abc
}

// Of gives the entries of a run: its primary ratios.
func Of(m store.Manifest, tables []analysis.Table, note map[string]string) []Entry {
	var entries []Entry
	for _, t := range tables {
		for _, r := range t.Rows {
			e := r.Effect
			if !t.Primary || t.Refused != "" || r.AA || e == nil || e.Difference != nil || e.Ratio <= 0 || e.Verdict == analysis.NotComparable || !e.Interval.Decides() {
				continue
			}
			facts := m.Targets[r.Target]
			entries = append(entries, Entry{
				Run: m.ID, At: m.Created.UTC(), Study: m.Study.ID, Cell: t.Group + "/" + r.Target, Control: m.Study.Control, Metric: t.Metric,
				Series: seriesOf(m, t, r), Machine: machineOf(m),
				Log: math.Log(e.Ratio), Low: math.Log(e.Interval.Low), High: math.Log(e.Interval.High), Noise: t.Noise, Margin: m.Study.Margin,
				Blocks: e.Blocks, Verdict: e.Verdict, Version: facts.Version, Digest: facts.Digest, Note: note,
			})
		}
	}
	return slices.DeleteFunc(entries, func(e Entry) bool { return e.check() != nil })
}

// machineOf is the class of a run's machine: on another one a series begins anew.
func machineOf(m store.Manifest) string {
	h := m.Host
	return fmt.Sprintf("%s, %d CPUs, %s, Linux %s, cgroup %s, virtualization %s", h.CPU, h.CPUs, h.Arch, h.Kernel, h.Cgroup, h.Virtualization)
}

// seriesOf is a digest: what a study measures in a cell, without its number of blocks and
// its other cells. The target's version is not in it, for that is what changes.
func seriesOf(m store.Manifest, t analysis.Table, r analysis.Row) string {
	c := study.Cell{}
	if i := slices.IndexFunc(m.Cells, func(c study.Cell) bool { return c.ID == r.Cell }); i >= 0 {
		c = m.Cells[i]
	}
	what := struct {
		Study, Group, Target, Control, Metric, Accel string
		Workload                                     study.Workload
		Params                                       map[string]string
		Environment                                  study.Environment
		Copies, Concurrency                          int
		Image, Machine                               string
	}{m.Study.ID, t.Group, r.Target, m.Study.Control, t.Metric.Name, r.Accel, study.Workload{}, m.Study.Params, c.Limits, c.Copies, c.Concurrency, m.Image, machineOf(m)}
	for _, w := range m.Study.Workloads {
		if w.Name == t.Workload {
			what.Workload = w
		}
	}
	what.Workload.Blocks, what.Workload.Rounds, what.Workload.Runs, what.Workload.Within = 0, nil, 0, 0
	text, err := json.Marshal(what)
	if err != nil {
		panic(err) // strings and numbers that were read from JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// check refuses what no tare has written.
func (e Entry) check() error {
	for _, v := range []float64{e.Log, e.Low, e.High, e.Noise, e.Margin} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%v is no ratio", v)
		}
	}
	if e.Run == "" || e.Series == "" || e.Cell == "" || e.Metric.Name == "" || e.At.IsZero() || e.Low > e.High || e.Noise < 0 || e.Margin < 0 {
		return errors.New("run, series, cell, metric and time are needed, and an interval whose ends are in order")
	}
	return nil
}

// lineBegins is how each line that tare writes begins.
const lineBegins = `{"run":"`

// Read reads a file of entries. A last line without an end was cut short by a kill: it is
// left out, and torn is how many bytes it has. The error names the line.
func Read(r io.Reader) (entries []Entry, torn int, err error) {
	lines := bufio.NewScanner(limit.History.Reader(r))
	lines.Buffer(nil, 1<<20)
	lines.Split(func(data []byte, atEOF bool) (advance int, line []byte, err error) {
		if end := bytes.IndexByte(data, '\n'); end >= 0 {
			return end + 1, data[:end], nil
		}
		if !atEOF || len(data) == 0 {
			return 0, nil, nil
		}
		if begun := data[:min(len(data), len(lineBegins))]; string(begun) == lineBegins[:len(begun)] {
			torn = len(data)
			return len(data), nil, nil
		}
		return len(data), data, nil // of another kind of file, which is not cut
	})
	for n := 1; lines.Scan(); n++ {
		var e Entry
		err := errors.Join(limit.History.CheckItems(n), json.Unmarshal(lines.Bytes(), &e))
		if err == nil {
			err = e.check()
		}
		if err != nil {
			return nil, 0, fmt.Errorf("history, line %d: %w", n, err)
		}
		entries = append(entries, e)
	}
	return entries, torn, lines.Err()
}

// Line is an entry as the file has it.
func (e Entry) Line() ([]byte, error) {
	line, err := json.Marshal(e)
	return append(line, '\n'), err
}

// New are the entries of runs that the history does not have yet, each once.
func New(have, more []Entry) []Entry {
	type key struct{ run, cell, metric string }
	of := func(e Entry) key { return key{e.Run, e.Cell, e.Metric.Name} }
	known := map[key]bool{}
	for _, e := range have {
		known[of(e)] = true
	}
	return slices.DeleteFunc(slices.Clone(more), func(e Entry) bool {
		had := known[of(e)]
		known[of(e)] = true
		return had
	})
}

// Series are the runs of one cell and metric, the oldest first.
type Series []Entry

// All are the series of a history, by study, cell, metric and machine.
func All(entries []Entry) []Series {
	sorted := slices.Clone(entries)
	slices.SortStableFunc(sorted, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Study, b.Study), cmp.Compare(a.Cell, b.Cell), cmp.Compare(a.Metric.Name, b.Metric.Name),
			cmp.Compare(a.Machine, b.Machine), cmp.Compare(a.Series, b.Series), a.At.Compare(b.At), cmp.Compare(a.Run, b.Run))
	})
	var all []Series
	for i, e := range sorted {
		if i == 0 || e.Series != sorted[i-1].Series {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], e)
	}
	return all
}

// The rules of a change.
const (
	// SmallestSegment is how many runs a level has at least. Simulated on 30 runs with
	// 5 % bad days, a single bad day counts as a change in 1.5 % of series with 3 and in
	// up to 15 % with 1.
	SmallestSegment = 3
	alpha           = 0.05
	// most bounds the runs of a series that are looked at, the latest ones.
	most = 200
)

// Change is a step in a series that is neither chance nor smaller than the margin, and
// whose interval, by the scatter of the runs on either side, lies on one side of 1.
type Change struct {
	Series Series           `json:"-"`
	Study  string           `json:"study"`
	Cell   string           `json:"cell"`
	Metric string           `json:"metric"`
	Before Entry            `json:"before"`  // the last run of the old level
	After  Entry            `json:"after"`   // the first run of the new one
	Ratio  float64          `json:"ratio"`   // of the new level to the old one
	Bounds stats.Interval   `json:"bounds"`  // of Ratio
	P      float64          `json:"p"`       // by permutation, adjusted for the number of series
	Word   analysis.Verdict `json:"verdict"` // slower, faster, more or less
}

// Worse reports whether the new level is the worse one.
func (c Change) Worse() bool { return (c.After.Metric.Better == sample.Lower) == (c.Ratio > 1) }

// leastPermutations is how often a series is permuted. A large history takes more: the
// smallest p-value must stay small enough when it is multiplied by the number of series.
const leastPermutations = 4999

// Changes are those of all series, in their order. Series that are too short for a step do
// not count. The p-value of each series' strongest step is adjusted for the number of series
// by Holm, and that of its other steps by Bonferroni.
func Changes(all []Series) []Change {
	all = slices.DeleteFunc(slices.Clone(all), func(s Series) bool { return len(s) < 2*SmallestSegment })
	permutations := max(leastPermutations, int(2*float64(len(all))/alpha))
	steps, p := make([][]stats.Step, len(all)), make([]float64, len(all))
	for i, s := range all {
		p[i] = 1
		steps[i] = stats.Steps(s.latest().logs(), SmallestSegment, alpha, permutations, 1)
		for _, step := range steps[i] {
			p[i] = min(p[i], step.P)
		}
	}
	var changes []Change
	for i, adjusted := range stats.Holm(p) {
		if adjusted > alpha {
			continue
		}
		s := all[i].latest()
		bounds, held := []int{0}, []float64{}
		for _, step := range steps[i] {
			by := min(1, step.P*float64(len(all)))
			if step.P == p[i] {
				by = adjusted
			}
			if by <= alpha {
				bounds, held = append(bounds, step.At), append(held, by)
			}
		}
		bounds = append(bounds, len(s))
		for k, by := range held {
			if c, ok := s.change(bounds[k], bounds[k+1], bounds[k+2]); ok {
				c.P = by
				changes = append(changes, c)
			}
		}
	}
	return changes
}

func (s Series) latest() Series { return s[max(0, len(s)-most):] }

func (s Series) logs() []float64 {
	logs := make([]float64, len(s))
	for i, e := range s {
		logs[i] = e.Log
	}
	return logs
}

// change is the step at the run at; ok is false for one within the margin, or with 1 in its
// interval. The noise of a single run's control is no bound here: what it does to ratios is
// in the scatter of the runs.
func (s Series) change(from, at, to int) (c Change, ok bool) {
	shift := stats.Between(s[from:at].logs(), s[at:to].logs(), 1-alpha)
	size := stats.FromLog(math.Abs(shift.Value))
	last := s[to-1]
	c = Change{Series: s, Study: last.Study, Cell: last.Cell, Metric: last.Metric.Name, Before: s[at-1], After: s[at],
		Ratio: stats.Ratio(shift.Value), Bounds: stats.Exponential(shift.Interval), Word: analysis.Directed(last.Metric, shift.Value > 0)}
	return c, size > last.Margin && (c.Bounds.Low > 1 || c.Bounds.High < 1)
}
