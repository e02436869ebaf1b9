package workload

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarelab/tare/internal/sample"
)

func byName(t *testing.T, values []sample.Value) map[string]float64 {
	t.Helper()
	m := map[string]float64{}
	for _, v := range values {
		if _, twice := m[v.Metric]; twice {
			t.Errorf("metric %q is given twice", v.Metric)
		}
		m[v.Metric] = v.Value
	}
	return m
}

func TestUnixParse(t *testing.T) {
	for _, test := range []struct {
		kind, file  string
		score, rate float64 // sums over the copies in the captured output
		evenness    float64
	}{
		{"unix-dhrystone2", "dhrystone2.json", 10 * (5.12794e7 + 4.48655e7) / 116700, 5.12794e7 + 4.48655e7, 4.48655 / 5.12794},
		{"unix-whetstone", "whetstone.json", 10 * (5984.52 + 5099.53) / 55, (5984.52 + 5099.53) * 1e6, 5099.53 / 5984.52},
		{"unix-file-copy-256", "file-copy-256.json", 10 * 197416. / 1655, 197416 * 1024, 1},
		{"unix-shell-8", "shell-8.json", 10 * 1267.25 / 6, 1267.25 / 60, 1},
		{"unix-syscall", "syscall.json", 10 * (887364. + 1.05298e6) / 15000, 887364 + 1.05298e6, 887364 / 1.05298e6},
	} {
		t.Run(test.kind, func(t *testing.T) {
			out, err := os.ReadFile("testdata/unix/" + test.file)
			if err != nil {
				t.Fatal(err)
			}
			w, err := ByKind(test.kind)
			if err != nil {
				t.Fatal(err)
			}
			values, err := w.Parse(out)
			if err != nil {
				t.Fatal(err)
			}
			got := byName(t, values)
			for name, want := range map[string]float64{sample.UnixScore: test.score, sample.UnixRate: test.rate, sample.UnixEvenness: test.evenness} {
				if math.Abs(got[name]/want-1) > 1e-9 {
					t.Errorf("%s = %v, want %v", name, got[name], want)
				}
			}
			for _, m := range w.Metrics() {
				if _, ok := got[m.Name]; !ok {
					t.Errorf("declared metric %q was not given", m.Name)
				}
				delete(got, m.Name)
			}
			if len(got) > 0 {
				t.Errorf("metrics that are not declared: %v", got)
			}
		})
	}
}

// A copy over whose window the machine's clock of CPU time stood still has a score
// by wall time alone.
func TestUnixParseWithoutCPUTime(t *testing.T) {
	w, err := ByKind("unix-whetstone")
	if err != nil {
		t.Fatal(err)
	}
	line := strings.NewReplacer("syscall", "whetstone", "lps", "MWIPS").Replace(unixGood)
	values, err := w.Parse([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	if got := byName(t, values); got[sample.UnixScore] == 0 || got[sample.UnixCPUScore] != 0 {
		t.Errorf("scores by wall time %v and by CPU time %v", got[sample.UnixScore], got[sample.UnixCPUScore])
	}
}

func TestUnixWindow(t *testing.T) {
	lines := []unixLine{{Start: 100, First: 101, End: 1100}, {Start: 90, First: 120, End: 1090}, {Start: 90, First: 95, End: 1080}}
	start, end, longest := window(lines)
	if start != 120 || end != 1080 || longest != 1000 {
		t.Errorf("at work from %d to %d of %d; want 120 to 1080 of 1000", start, end, longest)
	}
	if start, end, _ := window([]unixLine{{Start: 0, First: 0, End: 10}, {Start: 0, First: 20, End: 30}}); end >= start {
		t.Errorf("windows apart: at work from %d to %d", start, end)
	}
}

const unixGood = `{"test":"syscall","copy":0,"count":5,"seconds":1,"cpu_seconds":1,"unit":"lps","value":5,"start":1,"first":1,"end":1000000001,"check":"ok"}`

func TestUnixParseRefuses(t *testing.T) {
	w, err := ByKind("unix-syscall")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Parse([]byte(unixGood)); err != nil {
		t.Fatalf("the line that the others are made from: %v", err)
	}
	for _, test := range []struct{ name, from, to, want string }{
		{"nothing", unixGood, "", "no copy"},
		{"cut", `"check":"ok"}`, ``, "unexpected EOF"},
		{"words", unixGood, "Segmentation fault", "invalid character"},
		{"other test", `"test":"syscall"`, `"test":"execl"`, `test "execl"`},
		{"other unit", `"lps"`, `"lpm"`, `unit "lpm"`},
		{"failed check", `"ok"`, `"bad"`, `check "bad"`},
		{"no count", `"count":5`, `"count":0`, "nothing was measured"},
		{"no window", `"end":1000000001`, `"end":1`, "nothing was measured"},
		{"new field", `"copy":0`, `"copy":0,"turbo":1`, "turbo"},
		{"same copy twice", unixGood, unixGood + "\n" + unixGood, "second time"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := w.Parse([]byte(strings.Replace(unixGood, test.from, test.to, 1)))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestUnixCommand(t *testing.T) {
	for _, test := range []struct {
		kind   string
		params map[string]string
		want   []string
	}{
		{"unix-file-copy-256", map[string]string{"time": "500ms"},
			[]string{UnixPath, "file-copy", "--buffer=256", "--blocks=500", "--seconds=0.5", "--copies=1", "--dir=/tmp"}},
		{"unix-syscall", map[string]string{"copies": "4", "files": "own", "variant": "getpid"},
			[]string{UnixPath, "syscall", "--seconds=10", "--copies=4", "--dir=/tmp", "--own", "--variant=getpid"}},
		{"unix-shell-8", map[string]string{"barrier": "shared"},
			[]string{UnixPath, "shell-8", "--seconds=60", "--copies=1", "--dir=/tmp", "--barrier=" + UnixBarrier}},
	} {
		job, err := Resolve(test.kind, test.params, nil)
		if err != nil {
			t.Errorf("%s: %v", test.kind, err)
			continue
		}
		if diff := cmp.Diff(test.want, job.Args); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.kind, diff)
		}
	}
	if _, err := Resolve("unix-dhrystone", nil, nil); err == nil || !strings.Contains(err.Error(), `"unix-dhrystone2"`) {
		t.Errorf("unknown test: %v, want the nearest one named", err)
	}
	if _, err := Resolve("unix-shell-1", map[string]string{"variant": "mix"}, nil); err == nil {
		t.Error("shell-1 took a variant")
	}
}

// The baselines are those of UnixBench 5.1.3's index.base.
func TestUnixBaselines(t *testing.T) {
	type base struct {
		Rate float64
		Unit string
	}
	want := map[string]base{
		"dhrystone2": {116700, "lps"}, "whetstone": {55, "MWIPS"}, "execl": {43, "lps"},
		"file-copy-1024": {3960, "KBps"}, "file-copy-256": {1655, "KBps"}, "file-copy-4096": {5800, "KBps"},
		"pipe-throughput": {12440, "lps"}, "pipe-context-switch": {4000, "lps"}, "process-creation": {126, "lps"},
		"shell-1": {42.4, "lpm"}, "shell-8": {6, "lpm"}, "syscall": {15000, "lps"},
	}
	got := map[string]base{}
	for _, name := range UnixTestNames() {
		rate, unit, ok := UnixBaseline(name)
		if !ok {
			t.Errorf("%s has no baseline", name)
		}
		got[name] = base{rate, unit}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
