package lab

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
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

// indexID is the id of the study behind an index, of which no file exists.
const indexID = "index"

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
		ID:       indexID,
		Title:    "The Unix index of " + o.Target,
		Question: "What does this machine score in the tests of UnixBench?",
		Targets:  []string{o.Target}, Control: o.Target,
		Blocks: o.Passes, AA: &no, Cold: &no,
		Timeout: study.DefaultTimeout + 2*o.Window,
		Params:  map[string]string{"time": o.Window.String()},
	}
	for _, copies := range slices.Compact([]int{1, o.Copies}) {
		level := study.Limits{Name: copiesLevel(copies, len(cpus)), Params: map[string]string{"copies": strconv.Itoa(copies)}}
		if copies == 1 && len(cpus) == 1 {
			level.Same = []string{analysis.UnixAllN, analysis.UnixOneCPU}
		}
		st.Limits = append(st.Limits, level)
	}
	for _, test := range workload.UnixTestNames() {
		st.Workloads = append(st.Workloads, study.Workload{Name: test, Kind: "unix-" + test})
	}
	if o.Tests == nil {
		return st, nil
	}
	return st.Select(o.Tests)
}

// indexClaims are the tables of a run of IndexStudy. A run whose trials all
// failed has none but its failures.
func indexClaims(run *store.Run, claims *analysis.Claims) error {
	m := run.Manifest()
	if m.Study.ID != indexID || !slices.ContainsFunc(m.Study.Limits, func(l study.Limits) bool { return l.Params["copies"] != "" }) {
		return nil // a study of the user's own may have the id, too
	}
	records, err := collect(run)
	if err != nil {
		return err
	}
	emulated := emulatedIn(m, m.Study.Control)
	refused := analysis.UnixRefusals(analysis.UnixInput{Cells: m.Cells, Records: records, Tables: claims.Tables, Emulated: emulated})
	tables, err := indexTables(run, refused)
	if err != nil {
		return err
	}
	claims.Index = &analysis.UnixIndexClaims{Tables: tables, Refused: refused.Finding(), Emulated: emulated, Whetstone: whetstoneOf(m.Study)}
	return nil
}

// indexTables makes the tables of a run of IndexStudy, fewer copies first. Tests
// whose passes all failed have no row.
func indexTables(run *store.Run, refused analysis.UnixRefusal) ([]analysis.UnixIndexTable, error) {
	scores := map[string]map[string][]float64{} // by cell and metric
	for r, err := range run.Records() {
		if err != nil {
			return nil, err
		}
		if scores[r.Cell] == nil {
			scores[r.Cell] = map[string][]float64{}
		}
		for _, metric := range []string{sample.UnixScore, sample.UnixCPUScore} {
			scores[r.Cell][metric] = append(scores[r.Cell][metric], r.Values[metric]...)
		}
	}
	m := run.Manifest()
	var tables []analysis.UnixIndexTable
	for _, l := range m.Study.Limits {
		copies, err := strconv.Atoi(l.Params["copies"])
		if err != nil {
			return nil, fmt.Errorf("run %s is no index: its level %q does not say how many copies: %w", m.ID, l.Name, err)
		}
		t := analysis.UnixIndexTable{Target: m.Study.Control, Copies: copies}
		for _, c := range m.Cells {
			if c.Environment != l.Name {
				continue
			}
			row, ok, err := indexRow(c.Workload, scores[c.ID])
			if err != nil {
				return nil, fmt.Errorf("run %s: %s: %w", m.ID, c.ID, err)
			}
			if ok {
				row.Refused = refused.Of(l.Name, c.Workload)
				t.Rows = append(t.Rows, row)
			}
		}
		if err := t.Total(); err != nil {
			return nil, fmt.Errorf("run %s: %w", m.ID, err)
		}
		tables = append(tables, t)
	}
	return tables, nil
}

func indexRow(test string, scores map[string][]float64) (analysis.UnixIndexRow, bool, error) {
	baseline, unit, ok := workload.UnixBaseline(test)
	if !ok || len(scores[sample.UnixScore]) == 0 {
		return analysis.UnixIndexRow{}, false, nil
	}
	passes, err := analysis.ReduceUnixPasses(scores[sample.UnixScore])
	if err != nil {
		return analysis.UnixIndexRow{}, false, err
	}
	row := analysis.UnixIndexRow{Test: test, Unit: unit, Baseline: baseline, UnixPasses: passes}
	if byCPU := scores[sample.UnixCPUScore]; len(byCPU) > 0 {
		reduced, err := analysis.ReduceUnixPasses(byCPU)
		if err != nil {
			return analysis.UnixIndexRow{}, false, err
		}
		row.UnixBench, row.Dropped, row.CPUTime = reduced.UnixBench, reduced.Dropped, true
	}
	row.Result = row.UnixBench * baseline / 10
	return row, true, nil
}
