package unixbench

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/workload"
)

// indexOptions are how the Unix index of one target is measured.
type indexOptions struct {
	Target string        // where; "" is the host
	Tests  []string      // names; nil for all
	Copies int           // of the second table; 0 is one per CPU
	Passes int           // of each test
	Window time.Duration // of each pass
	Static bool          // the programs that are the same on every machine
	// UnixBench is the directory of the user's own, which runs next to the tests; "" for
	// none.
	UnixBench string
}

// copiesLevel is the name of an index's level, as in the study
// docker-on-loongson where that has one: machines are compared by level.
func copiesLevel(copies, cpus int) string {
	switch copies {
	case 1:
		return envAllOne
	case cpus:
		return envAllN
	}
	return fmt.Sprintf("allcpu-%dcopies", copies)
}

// indexID is the id of the study behind an index, of which no file exists.
const indexID = "index"

// unixBenchTime is what programs of a UnixBench may take besides their windows.
const unixBenchTime = 3 * time.Minute

// indexStudy is the study behind the Unix index of one target: every test with
// one copy and, where there are more, with all copies.
func indexStudy(o indexOptions) (study.Study, error) {
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
		Params:  map[string]string{"time": o.Window.String(), workload.ParamUnixBuild: workload.UnixDynamic},
	}
	whetstone := map[string]string{"variant": variantAsCompiled}
	if o.Static {
		st.Params[workload.ParamUnixBuild], whetstone = workload.UnixStatic, nil
	}
	if o.UnixBench != "" {
		if st.Params[workload.ParamUnixBench], err = filepath.Abs(o.UnixBench); err != nil {
			return study.Study{}, err
		}
		st.Timeout += unixBenchTime
	}
	for _, copies := range slices.Compact([]int{1, o.Copies}) {
		level := study.Environment{Name: copiesLevel(copies, len(cpus)), Params: map[string]string{"copies": strconv.Itoa(copies)}}
		if copies == 1 && len(cpus) == 1 {
			level.Same = []string{envAllN, envOneCPU}
		}
		st.Environments = append(st.Environments, level)
	}
	for _, test := range workload.UnixTestNames() {
		w := study.Workload{Name: test, Kind: "unix-" + test}
		if test == "whetstone" {
			w.Params = whetstone
		}
		st.Workloads = append(st.Workloads, w)
	}
	st = withFiles(st)
	if o.Tests == nil {
		return st, nil
	}
	return st.Select(o.Tests)
}

// describeIndex makes the tables of a run of tare index, with what they claim
// nothing of.
func describeIndex(m store.Manifest, in input) (*indexClaims, error) {
	in.Emulated = emulatedIn(m, m.Study.Control)
	refused := refusals(in)
	tables, err := indexTables(m, in, refused)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", m.ID, err)
	}
	return &indexClaims{Tables: tables, Refused: refused.Finding(), Emulated: in.Emulated, Whetstone: whetstoneOf(m.Study), Programs: programsOf(m)}, nil
}

// indexTables are a table for each number of copies, fewer copies first. Tests
// whose passes all failed have no row.
func indexTables(m store.Manifest, in input, refused refusal) ([]indexTable, error) {
	scores := map[string]map[string][]float64{} // by cell and metric
	for _, r := range in.Records {
		if scores[r.Cell] == nil {
			scores[r.Cell] = map[string][]float64{}
		}
		for _, metric := range []string{sample.UnixScore, sample.UnixCPUScore, sample.UnixBenchScore, sample.UnixBenchRatio} {
			scores[r.Cell][metric] = append(scores[r.Cell][metric], r.Values[metric]...)
		}
	}
	var tables []indexTable
	for _, l := range m.Study.Environments {
		copies, err := strconv.Atoi(l.Params["copies"])
		if err != nil {
			return nil, fmt.Errorf("this is no index: its level %q does not say how many copies: %w", l.Name, err)
		}
		t := indexTable{Target: m.Study.Control, Copies: copies}
		for _, c := range in.Cells {
			if c.Environment != l.Name {
				continue
			}
			row, ok, err := rowOf(c.Workload, scores[c.ID])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.ID, err)
			}
			if ok {
				row.Refused = refused.Of(l.Name, c.Workload)
				t.Rows = append(t.Rows, row)
			}
		}
		if err := t.Total(); err != nil {
			return nil, err
		}
		tables = append(tables, t)
	}
	return tables, nil
}

func rowOf(test string, scores map[string][]float64) (indexRow, bool, error) {
	baseline, unit, ok := workload.UnixBaseline(test)
	if !ok || len(scores[sample.UnixScore]) == 0 {
		return indexRow{}, false, nil
	}
	passes, err := reducePasses(scores[sample.UnixScore])
	if err != nil {
		return indexRow{}, false, err
	}
	row := indexRow{Test: test, Unit: unit, Baseline: baseline, passes: passes}
	if byCPU := scores[sample.UnixCPUScore]; len(byCPU) > 0 {
		reduced, err := reducePasses(byCPU)
		if err != nil {
			return indexRow{}, false, err
		}
		row.UnixBench, row.Dropped, row.CPUTime = reduced.UnixBench, reduced.Dropped, true
	}
	row.Result = row.UnixBench * baseline / 10
	row.NextTo, err = nextToOf(scores[sample.UnixBenchScore], scores[sample.UnixBenchRatio], baseline)
	return row, true, err
}
