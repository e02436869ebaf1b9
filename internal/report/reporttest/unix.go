package reporttest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/published"
)

// unixTruth is a test's score in one container of one copy on one CPU, and what
// a container costs it against the host.
type unixTruth struct {
	score, cost float64
	cpu         bool
}

var (
	unixTests = []string{"dhrystone2", "whetstone", "execl", "file-copy-1024", "file-copy-256", "file-copy-4096", "pipe-throughput", "pipe-context-switch", "process-creation", "shell-1", "shell-8", "syscall"}
	unixTruly = map[string]unixTruth{
		"dhrystone2": {2900, 1, false}, "whetstone": {950, 1, true}, "execl": {1100, 0.97, false}, "file-copy-1024": {1800, 0.93, false},
		"file-copy-256": {1200, 0.92, false}, "file-copy-4096": {3900, 0.95, false},
		"pipe-throughput": {1000, 0.98, false}, "pipe-context-switch": {300, 0.96, false}, "process-creation": {700, 0.91, false},
		"shell-1": {1700, 0.94, false}, "shell-8": {2100, 0.94, false}, "syscall": {800, 0.99, false},
	}
	unixMetrics = []sample.Metric{
		{Name: sample.UnixScore, Unit: sample.Count, Better: sample.Higher, Help: "10 x rate / rate of the baseline machine"},
		{Name: sample.UnixCPUScore, Unit: sample.Count, Better: sample.Higher, Help: "the score by CPU time"},
	}
)

// Unix is a run of docker-on-loongson on two CPUs: the host, two targets, one
// to eight containers, three repetitions, all twelve tests.
func Unix() report.Input {
	d, err := published.LoadAs[*published.DockerOnLoongson]("docker-on-loongson")
	if err != nil {
		panic(err) // the file is embedded, and tested where it lies
	}
	m := manifest("docker-on-loongson", study.ViewPriceList, []string{"host", "runc", "crun"}, 3)
	m.Study.Title = "Unix indexes in 0..N containers"
	m.Study.Question = "What does a container cost on this CPU, and how does each index fall as 1..N containers run the same test at once?"
	m.Study.Published = d.ID
	m.Host.ClockGHz, m.Host.ClockSource, m.Host.Cores = 2.45, "cpufreq", 2
	m.Targets["host"] = driver.Facts{}
	for _, t := range unixTests {
		m.Metrics[t] = unixMetrics
	}
	var records []sample.Record
	for _, environment := range []string{analysis.UnixAllN, analysis.UnixOneCPU, analysis.UnixAllOne} {
		for _, test := range unixTests {
			for _, n := range []int{1, 2, 3, 4, 8} {
				group := fmt.Sprintf("%s+%s+x%d", test, environment, n)
				for i, name := range m.Study.Targets {
					if i == 0 && n > 1 {
						continue // the control is measured once
					}
					c := study.Cell{ID: name + "/" + group, Target: name, Workload: test, Environment: environment, Copies: n, Group: group, Control: i == 0}
					m.Cells = append(m.Cells, c)
					records = append(records, unixRecords(c)...)
				}
			}
		}
	}
	data := analysis.NewData(m.Cells, len(records))
	for i := range records {
		data.Add(&records[i])
	}
	m.Trials = len(records)
	claims := analysis.Analyze(analysis.Input{Cells: m.Cells, Metrics: m.Metrics, Data: data, Blocks: 3, Planned: len(records), Seed: 1})
	if claims.Unix, err = analysis.UnixStudy(analysis.UnixInput{Cells: m.Cells, Records: records, Tables: claims.Tables, Published: d}); err != nil {
		panic(err) // every cell above has scores
	}
	return report.Input{Manifest: m, Claims: claims}
}

// unixRecords are three repetitions of a cell, by its truth with 1 % of noise.
func unixRecords(c study.Cell) []sample.Record {
	truth := unixTruly[c.Workload]
	level, share := truth.score, 1/math.Pow(float64(c.Copies), 1.02)
	switch c.Environment {
	case analysis.UnixAllN:
		level *= 1.9
	case analysis.UnixAllOne:
		share = min(1, 2/float64(c.Copies))
	}
	if !c.Control {
		level *= truth.cost
	}
	rng := source(c.ID, "unix")
	noise := func() float64 { return math.Exp(0.01 * rng.NormFloat64()) }
	var out []sample.Record
	for block := range 3 {
		r := sample.Record{Block: block, Cell: c.ID, Values: map[string][]float64{sample.UnixContainersOverlap: {0.985 + 0.01*rng.Float64()}}}
		repetition := noise()
		for range c.Copies {
			v := level * share * repetition * noise()
			r.Values[sample.UnixScore] = append(r.Values[sample.UnixScore], v)
			if truth.cpu {
				r.Values[sample.UnixCPUScore] = append(r.Values[sample.UnixCPUScore], level*unixSteady(rng))
			}
		}
		out = append(out, r)
	}
	return out
}

// unixSteady is the noise of a score by CPU time.
func unixSteady(rng *rand.Rand) float64 { return math.Exp(0.002 * rng.NormFloat64()) }
