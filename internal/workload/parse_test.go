package workload

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/sample"
)

// captured are real outputs of sysbench 1.0.20, fio 3.33 and iperf 3.12 on
// Debian 12, with values read off them by hand.
var captured = []struct {
	kind, file string
	want       map[string]float64
}{
	{"sysbench-cpu", "sysbench-cpu.out", map[string]float64{"events": 4449.67, "latency-mean": 1.99003 / 4484}},
	{"sysbench-memory", "sysbench-memory.out", map[string]float64{"throughput": 29311.49 * (1 << 20), "latency-mean": 0.99033 / 29333}},
	{"sysbench-fileio", "sysbench-fileio.out", map[string]float64{
		"operations": 17308.10 + 11538.73 + 1154.87, "reads": 17308.10, "writes": 11538.73, "fsyncs": 1154.87, "read-throughput": 270.44 * (1 << 20), "write-throughput": 180.29 * (1 << 20), "latency-mean": 0.98806 / 30053,
	}},
	{"fio", "fio-randread.json", map[string]float64{"write-throughput": 0}},
	{"fio", "fio-randrw.json", map[string]float64{
		"operations": 16233.552632 + 16976.973684, "read-throughput": 66492631, "write-throughput": 69537684, "latency-p99": 585728e-9,
		"latency-mean": (105383.612563*4935 + 4792.975005*5161) / (4935 + 5161) * 1e-9,
	}},
	{"iperf3", "iperf3.json", map[string]float64{"throughput": 17017433006.6454, "retransmits": 6}},
	{"net-tcp", "iperf3.json", map[string]float64{"throughput": 17017433006.6454, "moved": 2127691776}},
	{"net-latency", "net-latency.out", map[string]float64{"rtt": 16601e-9, "rtt-p99": 1421091e-9, "round-trips": 23284}},
	{"net-connections", "net-connections.out", map[string]float64{"connections": 94 / 302260217e-9}},
	{"net-udp", "net-udp.out", map[string]float64{"packets": 3377 / 324240886e-9}},
	{"net-unix", "net-unix.out", map[string]float64{"throughput": 8 * 23461888 / 313238244e-9, "moved": 23461888}},
	{"net-open", "net-open.out", map[string]float64{"response": 67519e-9, "response-p999": 5558271e-9, "answers": 1065 / 1001229811e-9, "requests-due": 1065, "requests-failed": 0, "requests-served": 1065}},
	{"redis", "redis.out", map[string]float64{"requests-failed": 0}},
	{"nginx", "nginx.out", map[string]float64{"requests-failed": 0}},
	{"postgres", "postgres.out", map[string]float64{"requests-failed": 0}},
	// A minute in a trimmed container host; the host was busy.
	{"container-load", "load.out", map[string]float64{"task": (5.81 + 6.18 + 7.99 + 4.29 + 7.38 + 8.43 + 8.62) / 7}},
	{"churn-cgroup", "churn-cgroup.txt", map[string]float64{"cycles": 120 / 0.080600409, "rmdir-rate": 2 / 0.000147236, "rmdir-p50": 0.000020408, "rmdir-p99": 0.002282838, "cycles-done": 120, "rmdir-max": 0.004490366}},
	{"churn-net", "churn-net.txt", map[string]float64{"cycles": 120 / 1.167284094, "veth-rate": 2 / 0.009311073, "veth-p50": 0.002289841, "veth-p99": 0.063828606}},
	{"churn-mount", "churn-mount.txt", map[string]float64{"cycles": 120 / 0.563836459, "umount-rate": 2 / 0.005271175, "umount-p50": 0.000537733, "umount-p99": 0.063391239}},
	{"churn-process", "churn-process.txt", map[string]float64{"cycles": 120 / 0.616007211, "net-rate": 2 / 0.003041705, "net-p50": 0.001120691, "net-p99": 0.029543906}},
}

// few are the captures with too few requests for a 99.9th percentile.
var few = map[string]bool{"redis.out": true, "nginx.out": true, "postgres.out": true}

func read(t testing.TB, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func workload(t testing.TB, kind string) Workload {
	t.Helper()
	w, err := ByKind(kind)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestParseCaptured(t *testing.T) {
	for _, c := range captured {
		t.Run(c.file, func(t *testing.T) {
			w := workload(t, c.kind)
			values, err := w.Parse(read(t, c.file))
			if err != nil {
				t.Fatal(err)
			}
			checkValues(t, w, values)
			if len(values) != len(w.Metrics()) && !few[c.file] {
				t.Errorf("%d values for %d metrics", len(values), len(w.Metrics()))
			}
			for _, v := range values {
				want, known := c.want[v.Metric]
				if known && math.Abs(v.Value-want) > 1e-9*want {
					t.Errorf("%s is %v, want %v", v.Metric, v.Value, want)
				}
			}
		})
	}
}

// A p99 is of 100 values or more: of fewer the longest is all that is told.
func TestChurnOfFewCyclesHasNoP99(t *testing.T) {
	values, err := workload(t, "churn-net").Parse([]byte("elapsed 1 9 11\nphase create 99 1 1 1 1 2\nphase veth 99 1 1 1 1 2\nphase address 99 1 1 1 1 2\nphase destroy 99 1 1 1 1 2\ndone\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, v := range values {
		got[v.Metric] = v.Value
	}
	if _, told := got["veth-p99"]; told || got["veth-max"] != 2 || got["cycles-done"] != 99 {
		t.Errorf("%v", got)
	}
}

// checkValues checks what holds of every successful parse: each metric is
// declared, given once, and a finite number not below zero; the primary one is
// there.
func checkValues(t testing.TB, w Workload, values []sample.Value) {
	t.Helper()
	declared := map[string]bool{}
	for _, m := range w.Metrics() {
		declared[m.Name] = true
	}
	seen := map[string]bool{}
	for _, v := range values {
		if !declared[v.Metric] || seen[v.Metric] {
			t.Errorf("%s is not declared or given twice", v.Metric)
		}
		if math.IsNaN(v.Value) || math.IsInf(v.Value, 0) || v.Value < 0 {
			t.Errorf("%s is %v", v.Metric, v.Value)
		}
		seen[v.Metric] = true
	}
	if !seen[w.Metrics()[0].Name] {
		t.Errorf("the primary metric %s is missing", w.Metrics()[0].Name)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ kind, text, says string }{
		{"sysbench-cpu", "", "events"},
		{"sysbench-cpu", "FATAL: unable to create thread\n", "events"},
		{"sysbench-cpu", "    events per second: 1e400\n", "events"},
		{"sysbench-cpu", strings.Repeat("    events per second: 5.0\n", 2), "2 lines"},
		{"sysbench-memory", "0.00 MiB transferred (nan MiB/sec)\n", "throughput"},
		{"container-load", "", "nothing of the container"},
		{"container-load", "container package 1\ncontainer agent 2\ncontainer late 3\n{\"id\":\"1\"}\n{\"id\":\"2\"}\n{\"id\":\"3\"}\n", "no package work"},
		{"container-load", "task 5.1 5.1\n", "began at 5.1 s"},
		{"container-load", "docker: permission denied\n", "not what the workload prints"},
		{"churn-net", "", "no elapsed"},
		{"churn-net", "elapsed 0 4 1\n", "no positive number"},
		{"churn-net", "elapsed 1 4 1\nphase rmdir 4 1 1 1 1 1\n", "none of churn-net"},
		{"churn-net", "elapsed 1 4 2\nphase veth 7 1 1 1 1 1\n", "gone through 7 times in 8 cycles"},
		{"churn-net", "elapsed 1 4 2\nphase veth 8 1 1 1 1 1\nphase veth 8 1 1 1 1 1\n", "stands twice"},
		{"churn-net", string(read(t, "churn-mount.txt")), "none of churn-net"},
		{"churn-net", "churn: veth: Operation not permitted\n", "not what churn prints"},
		{"churn-net", "elapsed 1 4 1\nphase create 4 NaN 1 1 1 1\n", "no positive number"},
		{"churn-net", "elapsed 1 4 1\nphase create 4 1e-320 1 1 1 1\nphase veth 4 1 1 1 1 1\nphase address 4 1 1 1 1 1\nphase destroy 4 1 1 1 1 1\ndone\n", "create-rate"},
		{"net-connections", "connections NaN\nelapsed_ns 5\n", "connections: NaN"},
		{"sysbench-memory", "1.00 MiB transferred (" + strings.Repeat("9", 308) + " MiB/sec)\n  total number of events:  1\n  sum:  1.00\n", "throughput: +Inf"},
		{"container-load", "container package 1\ncontainer agent 2\ncontainer late 3\n" + strings.Repeat(`{"id":"1","cpu":1.7e308}`+"\n", 2) + "{\"id\":\"2\"}\n{\"id\":\"3\"}\ntask 1 2\n", "+Inf"},
		{"redis", "", "middle of a line"},
		{"redis", strings.Replace(string(read(t, "net-open.out")), "served 1065", "served 1064", 1), "both sides did not do the same work"},
		{"redis", strings.Replace(string(read(t, "net-open.out")), "served 1065", "served 1066", 1), "both sides did not do the same work"},
		{"redis", strings.Replace(string(read(t, "net-open.out")), "answered 1065", "answered 0", 1), "none of 1065 requests was answered"},
		{"fio", "", "not JSON"},
		{"fio", string(read(t, "fio-error.json")), "not JSON"},
		{"fio", `{"jobs":[]}`, "0 jobs"},
		{"fio", `{"jobs":[{"jobname":"a","error":28,"read":{},"write":{}}]}`, "error 28"},
		{"fio", `{"jobs":[{"jobname":"a","error":0,"read":{"total_ios":0},"write":{}}]}`, "no access"},
		{"fio", `{"jobs":[{"jobname":"a","read":{"total_ios":5,"iops":-4},"write":{}}]}`, "99th"},
		{"fio", `{"jobs":[{"jobname":"a","read":{"total_ios":5,"iops":-4,"clat_ns":{"percentile":{"99.000000":1}}},"write":{}}]}`, "operations"},
		{"iperf3", "", "not JSON"},
		{"iperf3", string(read(t, "iperf3-refused.json")), "Connection refused"},
		{"iperf3", `{"end":{}}`, "did not finish"},
		{"iperf3", `{"end":{"sum_sent":{},"sum_received":{"bits_per_second":0}}}`, "received nothing"},
	} {
		_, err := workload(t, c.kind).Parse([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s of %.40q: error %v, want one with %q", c.kind, c.text, err, c.says)
		}
	}
}

// A report that was cut off must not pass for a whole one: a text report's
// last metric stands near its end, and cut JSON is none.
func TestParseTruncated(t *testing.T) {
	for _, c := range captured {
		w, whole := workload(t, c.kind), bytes.TrimSpace(read(t, c.file))
		for n := range len(whole) * 8 / 10 {
			if values, err := w.Parse(whole[:n]); err == nil {
				t.Fatalf("%s: the first %d of %d bytes gave %v", c.file, n, len(whole), values)
			}
		}
	}
}

func TestNotesBeforeJSON(t *testing.T) {
	text := append([]byte("fio: this platform does not support process shared mutexes\nnote: {x}\n"), read(t, "fio-randread.json")...)
	if _, err := workload(t, "fio").Parse(text); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range captured {
		f.Add(c.kind, read(f, c.file))
	}
	f.Add("fio", []byte(`{"jobs":[{"read":{"total_ios":9223372036854775807},"write":{"total_ios":1}}]}`))
	f.Add("sysbench-cpu", []byte("    events per second: ......\n"))
	f.Fuzz(func(t *testing.T, kind string, text []byte) {
		w, err := ByKind(kind)
		if err != nil || len(w.Metrics()) == 0 {
			return
		}
		if values, err := w.Parse(text); err == nil {
			checkValues(t, w, values)
		}
	})
}
