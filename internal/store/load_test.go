package store

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/schedule"
)

// The metrics of a large run, as many as a trial has.
var metricNames = []string{"wall", "ready", "cpu-user", "cpu-system", "peak-memory", "faults-minor", "faults-major",
	"switches-voluntary", "switches-involuntary", "events", "latency-mean", "latency-p95"}

// generate writes a run of n trials as Append would, without waiting for the
// disk after each.
func generate(tb testing.TB, root string, n int) *Run {
	tb.Helper()
	m := manifest(0)
	blocks := n/len(m.Cells) - 1
	plan := schedule.Plan(m.Cells, blocks, 1)
	m.Trials, m.Study.Blocks = len(plan), blocks
	r, err := Create(root, m)
	if err != nil {
		tb.Fatal(err)
	}
	defer r.Close()
	w := bufio.NewWriterSize(r.records, 1<<20)
	random := rand.New(rand.NewPCG(1, 2))
	for _, trial := range plan {
		values := map[string][]float64{}
		for i, name := range metricNames {
			v := 0.02 * math.Exp(random.NormFloat64()/10)
			if i >= 4 && i <= 8 {
				v = math.Round(v * 1e6)
			}
			values[name] = []float64{v}
		}
		line, err := Line(sample.Record{Seq: trial.Seq, Block: trial.Block, Cell: m.Cells[trial.Cell].ID, At: 1795248900000000000 + int64(trial.Seq), Values: values})
		if err != nil {
			tb.Fatal(err)
		}
		w.Write(line)
	}
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
	return r
}

// BenchmarkLoad reads a run of a million trials with 12 metrics each.
// TARE_BENCH_RUN names a directory to make it in, and keep it.
func BenchmarkLoad(b *testing.B) {
	root := os.Getenv("TARE_BENCH_RUN")
	if root == "" {
		root = b.TempDir()
	}
	dir, err := Resolve(root, "last")
	if err != nil {
		dir = generate(b, root, 1_000_000).Dir()
	}
	r, err := Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, recordsFile))
	if err != nil {
		b.Fatal(err)
	}
	runtime.GC()
	b.SetBytes(info.Size())
	b.ResetTimer()
	for range b.N {
		data, err := r.Load()
		if err != nil {
			b.Fatal(err)
		}
		runtime.KeepAlive(data)
	}
	b.StopTimer()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(usage.Maxrss)/1024, "MiB-peak")
}

// Stretches end in the middle of lines: a run many times their size loses and
// changes nothing, in the file's order.
func TestManyStretches(t *testing.T) {
	r := generate(t, t.TempDir(), 20_000)
	text, err := os.ReadFile(filepath.Join(r.Dir(), recordsFile))
	if err != nil {
		t.Fatal(err)
	}
	if len(text) < 4*batchBytes {
		t.Fatalf("%d bytes are too few stretches to show anything", len(text))
	}
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	i := 0
	for got, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		var want sample.Record
		if err := json.Unmarshal(lines[i], &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("record %d is %+v, want %+v", i, got, want)
		}
		i++
	}
	if i != len(lines) {
		t.Errorf("%d records, want %d", i, len(lines))
	}
	for rec, err := range r.Records() { // leaving early neither hangs nor fails
		if err != nil || rec.Seq > 2 {
			break
		}
	}
}

// The fast decoder must agree with the general one on every line it accepts.
func FuzzPlain(f *testing.F) {
	for _, seq := range []int{0, 7} {
		line, err := json.Marshal(record(seq))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	head := `{"seq":1,"block":-1,"cell":"a/b","at":5,"values":{`
	for _, rest := range []string{`"a":[1]}}`, `"a":[-0.5e-7,1E9],"b":[0]},"warnings":["x","µ"]}`, `"a":[01]}}`, `"a":[1],"a":[2]}}`,
		`}}`, `"a":[]}}`, `"a":[1e999]}}`, `"a":[1.]}}`, `"a":[+1]}}`, `"a":[1]},"warnings":["\u003c"]}`, `"a":[1]},"failure":null}`} {
		f.Add([]byte(head + rest))
	}
	f.Add([]byte(`{"seq":1.5,"block":0,"cell":"","at":-0,"values":{"":[1]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if bytes.IndexByte(text, '\n') >= 0 {
			return
		}
		var b batch
		line, ok := b.plain(text)
		if !ok {
			return
		}
		want, err := other(text)
		if err != nil {
			t.Fatalf("%q is accepted, and refused by the general decoder: %v", text, err)
		}
		if got := line.record(); !reflect.DeepEqual(got, *want.full) {
			t.Fatalf("%q is %+v, and %+v to the general decoder", text, got, *want.full)
		}
	})
}

// What Append writes for a good trial takes the fast way: else a large report
// would be slow and no test would notice.
func TestOrdinaryLinesArePlain(t *testing.T) {
	r := record(3)
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var b batch
	if _, ok := b.plain(text); !ok {
		t.Errorf("%s takes the slow way", text)
	}
}

func TestEndlessLine(t *testing.T) {
	err := batches(strings.NewReader(strings.Repeat("x", int(limit.RunRecord.Bytes)+2*batchBytes)), false, func(*batch) error { return nil })
	if err == nil || !errors.As(err, new(*limit.Error)) {
		t.Errorf("an endless line: %v", err)
	}
}
