package lab

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/workload"
)

// IndexOptions are how the Unix index of one target is measured.
type IndexOptions struct {
	Target string        // where; "" is the host
	Tests  []string      // names; nil for all
	Copies int           // of the second table; 0 is one per CPU
	Passes int           // of each test
	Window time.Duration // of each pass
}

// copiesLevel is the name of an index's level, as in the study
// docker-on-loongson where that has one: machines are compared by level.
func copiesLevel(copies, cpus int) string {
	switch copies {
	case 1:
		return analysis.UnixAllOne
	case cpus:
		return analysis.UnixAllN
	}
	return fmt.Sprintf("allcpu-%dcopies", copies)
}

// IndexStudy is the study behind the Unix index of one target: every test with
// one copy and, where there are more, with all copies.
func IndexStudy(o IndexOptions) (study.Study, error) {
	no := false
	if o.Target == "" {
		o.Target = study.DefaultControl
	}
	cpus, err := sys.AllowedCPUs()
	if err != nil {
		return study.Study{}, err
	}
	if o.Copies == 0 {
		o.Copies = len(cpus)
	}
	st := study.Study{
		ID:       "index",
		Title:    "The Unix index of " + o.Target,
		Question: "What does this machine score in the tests of UnixBench?",
		Targets:  []string{o.Target}, Control: o.Target,
		Blocks: o.Passes, AA: &no, Cold: &no,
		Timeout: study.DefaultTimeout + 2*o.Window,
		Params:  map[string]string{"time": o.Window.String()},
	}
	for _, copies := range slices.Compact([]int{1, o.Copies}) {
		st.Limits = append(st.Limits, study.Limits{Name: copiesLevel(copies, len(cpus)), Params: map[string]string{"copies": strconv.Itoa(copies)}})
	}
	for _, test := range workload.UnixTestNames() {
		st.Workloads = append(st.Workloads, study.Workload{Name: test, Kind: "unix-" + test})
	}
	if o.Tests == nil {
		return st, nil
	}
	return st.Select(o.Tests)
}

// UnixIndexTable is the Unix index with one number of copies.
type UnixIndexTable struct {
	Target string         `json:"target"`
	Copies int            `json:"copies"`
	Rows   []UnixIndexRow `json:"tests"`
	// UnixBench is the index over the rows by UnixBench's reduction, All by ours;
	// nil where no test gave a score.
	UnixBench *analysis.UnixIndex `json:"unixBench,omitempty"`
	All       *analysis.UnixIndex `json:"all,omitempty"`
}

// UnixIndexRow is one test. Its scores are reduced in two ways, see
// analysis.UnixPasses. UnixBench's of whetstone is by CPU time, as UnixBench
// 5.1.3 times it; ours are by wall time.
type UnixIndexRow struct {
	Test     string  `json:"test"`
	Unit     string  `json:"unit"`     // of Baseline and Result
	Baseline float64 `json:"baseline"` // of the machine that scores 10
	Result   float64 `json:"result"`   // of UnixBench's reduction
	CPUTime  bool    `json:"cpuTime"`  // Result and UnixBench's score are by CPU time
	analysis.UnixPasses
}

// Index makes the tables of a run of IndexStudy, fewer copies first. Tests whose
// passes all failed have no row.
func Index(run *store.Run) ([]UnixIndexTable, error) {
	scores := map[string]map[string][]float64{} // by cell and metric
	for r, err := range run.Records() {
		if err != nil {
			return nil, err
		}
		if scores[r.Cell] == nil {
			scores[r.Cell] = map[string][]float64{}
		}
		for _, metric := range []string{workload.UnixScore, workload.UnixCPUScore} {
			scores[r.Cell][metric] = append(scores[r.Cell][metric], r.Values[metric]...)
		}
	}
	m := run.Manifest()
	var tables []UnixIndexTable
	for _, l := range m.Study.Limits {
		copies, err := strconv.Atoi(l.Params["copies"])
		if err != nil {
			return nil, fmt.Errorf("run %s is no index: its level %q does not say how many copies: %w", m.ID, l.Name, err)
		}
		t := UnixIndexTable{Target: m.Study.Control, Copies: copies}
		for _, c := range m.Cells {
			if c.Environment != l.Name {
				continue
			}
			row, ok, err := indexRow(c.Workload, scores[c.ID])
			if err != nil {
				return nil, fmt.Errorf("run %s: %s: %w", m.ID, c.ID, err)
			}
			if ok {
				t.Rows = append(t.Rows, row)
			}
		}
		if err := t.total(); err != nil {
			return nil, fmt.Errorf("run %s: %w", m.ID, err)
		}
		tables = append(tables, t)
	}
	return tables, nil
}

func indexRow(test string, scores map[string][]float64) (UnixIndexRow, bool, error) {
	baseline, unit, ok := workload.UnixBaseline(test)
	if !ok || len(scores[workload.UnixScore]) == 0 {
		return UnixIndexRow{}, false, nil
	}
	passes, err := analysis.ReduceUnixPasses(scores[workload.UnixScore])
	if err != nil {
		return UnixIndexRow{}, false, err
	}
	row := UnixIndexRow{Test: test, Unit: unit, Baseline: baseline, UnixPasses: passes}
	if byCPU := scores[workload.UnixCPUScore]; len(byCPU) > 0 {
		reduced, err := analysis.ReduceUnixPasses(byCPU)
		if err != nil {
			return UnixIndexRow{}, false, err
		}
		row.UnixBench, row.CPUTime = reduced.UnixBench, true
	}
	row.Result = row.UnixBench * baseline / 10
	return row, true, nil
}

// total sets the indexes over the rows.
func (t *UnixIndexTable) total() error {
	if len(t.Rows) == 0 {
		return nil
	}
	unixBench, all := map[string]float64{}, map[string]float64{}
	for _, r := range t.Rows {
		unixBench[r.Test], all[r.Test] = r.UnixBench, r.UnixPasses.All
	}
	a, err := analysis.NewUnixIndex(unixBench)
	if err != nil {
		return err
	}
	b, err := analysis.NewUnixIndex(all)
	if err != nil {
		return err
	}
	t.UnixBench, t.All = &a, &b
	return nil
}
