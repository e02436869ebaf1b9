package unixbench

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
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
)

// madeUp is a run of the study on two CPUs: the host, two targets, one to eight
// containers, three repetitions, all twelve tests.
func madeUp(t *testing.T) *description {
	t.Helper()
	in := input{Published: loongson(t)}
	for _, environment := range []string{envAllN, envOneCPU, envAllOne} {
		for _, test := range unixTests {
			for _, n := range []int{1, 2, 3, 4, 8} {
				group := fmt.Sprintf("%s+%s+x%d", test, environment, n)
				for i, name := range []string{"host", "runc", "crun"} {
					if i == 0 && n > 1 {
						continue // the control is measured once
					}
					c := study.Cell{ID: name + "/" + group, Target: name, Workload: test, Environment: environment, Copies: n, Group: group, Control: i == 0}
					in.Cells = append(in.Cells, c)
					in.Records = append(in.Records, unixRecords(c)...)
				}
			}
		}
	}
	return studied(t, in)
}

// What a section says of a quiet run of all tests stays as it is: the findings, the
// claims, and the tables of one place.
func TestSectionOfAllTests(t *testing.T) {
	s := section(madeUp(t))
	s.Tables = s.Tables[:2]
	var out bytes.Buffer
	if err := report.WriteSections(&out, []finding.Section{s}, report.Options{Width: 120}); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join("testdata", "madeup.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), out.String()); d != "" {
		t.Errorf("testdata/madeup.txt differs (-want +got):\n%s", d)
	}
}

// unixRecords are three repetitions of a cell, by its truth with 1 % of noise.
func unixRecords(c study.Cell) []sample.Record {
	truth := unixTruly[c.Workload]
	level, share := truth.score, 1/math.Pow(float64(c.Copies), 1.02)
	switch c.Environment {
	case envAllN:
		level *= 1.9
	case envAllOne:
		share = min(1, 2/float64(c.Copies))
	}
	if !c.Control {
		level *= truth.cost
	}
	rng := sourceOf(c.ID)
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

func sourceOf(cell string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(cell + "\x00unix")) // a hash's Write never fails
	return rand.New(rand.NewPCG(h.Sum64(), 1))
}
