package workload

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

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
		{"unix-whetstone", map[string]string{"build": "dynamic", "variant": "as-compiled"},
			[]string{"/.tare/whetstone-gnu", "whetstone", "--seconds=10", "--copies=1", "--dir=/tmp", "--variant=as-compiled"}},
		{"unix-execl", map[string]string{"build": "dynamic", "unixbench": "/home/u/UnixBench", "time": "2500ms", "copies": "2"},
			[]string{"/.tare/unixbench", "--home=/.tare/user/unixbench", "--seconds=2.5", "--copies=2", "--dir=/tmp", "execl", "--",
				"/.tare/unix-gnu", "execl", "--seconds=2.5", "--copies=2", "--dir=/tmp"}},
		{"unix-syscall", map[string]string{"unixbench": "/u", "barrier": "shared"},
			[]string{"/.tare/unixbench", "--home=/.tare/user/unixbench", "--seconds=10", "--copies=1", "--dir=/tmp", "--after", "syscall", "--",
				UnixPath, "syscall", "--seconds=10", "--copies=1", "--dir=/tmp", "--barrier=" + UnixBarrier}},
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

// What a test takes of the machine: with the dynamic build the scripts' programs, of a
// user's UnixBench what that test runs. Such a test takes no turns.
func TestUnixCommandNeeds(t *testing.T) {
	resolve := func(kind string, params map[string]string) Job {
		job, err := Resolve(kind, params, nil)
		if err != nil {
			t.Fatalf("%s %v: %v", kind, params, err)
		}
		return job
	}
	if job := resolve("unix-shell-1", nil); job.Commands != nil || job.Dynamic != "" || job.Turns == nil {
		t.Errorf("static: %+v", job.Command)
	}
	job := resolve("unix-shell-1", map[string]string{"build": "dynamic"})
	if !slices.Contains(job.Commands, "sort") || job.Dynamic != "/.tare/unix-gnu" || job.Otherwise["build"] != "static" || job.Turns != nil {
		t.Errorf("dynamic: %+v", job.Command)
	}
	job = resolve("unix-shell-8", map[string]string{"unixbench": "/u"})
	const hint = "is /u the directory with UnixBench's Run, and was make run there?"
	want := []File{
		{"/u", "pgms/looper", "/.tare/user/unixbench/pgms/looper", hint}, {"/u", "pgms/multi.sh", "/.tare/user/unixbench/pgms/multi.sh", hint},
		{"/u", "pgms/tst.sh", "/.tare/user/unixbench/pgms/tst.sh", hint}, {"/u", "testdir/sort.src", "/.tare/user/unixbench/testdir/sort.src", hint},
	}
	if diff := cmp.Diff(want, job.Files); diff != "" || job.Turns != nil || job.Length != 2*time.Minute {
		t.Errorf("beside a UnixBench: %+v\n%s", job.Command, diff)
	}
	for _, test := range unixTests() {
		job := resolve(test.Kind(), map[string]string{"unixbench": "/u", "time": "300ms"})
		if len(job.Files) == 0 || !slices.ContainsFunc(job.Metrics, func(m sample.Metric) bool { return m.Name == sample.UnixBenchRatio }) || job.Length < 1300*time.Millisecond {
			t.Errorf("%s: %+v", test.name, job.Command)
		}
	}
	for _, dir := range []string{"relative", "", "/a\nb"} {
		if _, err := Resolve("unix-syscall", map[string]string{"unixbench": dir}, nil); err == nil || !strings.Contains(err.Error(), "absolute path of a directory") {
			t.Errorf("directory %q: %v", dir, err)
		}
	}
}

// Outputs of tests next to a UnixBench 6.0.0 and a 5.1.3 that gcc 12 built.
func TestUnixParseNextToUnixBench(t *testing.T) {
	for _, test := range []struct {
		kind, file   string
		score, ratio float64
	}{
		{"unix-dhrystone2", "dhrystone2.json", 10 * (5.41094e6 + 3.27805e6) / 116700, (5909436.072/0.107163 + 5963786.668/0.107976) / (5.45342e7 + 5.36574e7)},
		{"unix-whetstone", "whetstone.json", 10 * 8621.67 / 55, 8553.92 / 8621.67},
		{"unix-file-copy-1024", "file-copy-1024.json", 10 * 136821. / 3960, 237026.467 / 0.366778 / 631161},
	} {
		out, err := os.ReadFile("testdata/unix/unixbench/" + test.file)
		if err != nil {
			t.Fatal(err)
		}
		w, err := ByKind(test.kind)
		if err != nil {
			t.Fatal(err)
		}
		values, err := w.Parse(out)
		if err != nil {
			t.Fatalf("%s: %v", test.kind, err)
		}
		got := byName(t, values)
		if math.Abs(got[sample.UnixBenchScore]/test.score-1) > 1e-5 || math.Abs(got[sample.UnixBenchRatio]/test.ratio-1) > 1e-4 {
			t.Errorf("%s: score %v, ratio %v; want %v and %v", test.kind, got[sample.UnixBenchScore], got[sample.UnixBenchRatio], test.score, test.ratio)
		}
	}
	w, err := ByKind("unix-syscall")
	if err != nil {
		t.Fatal(err)
	}
	theirs := strings.Replace(unixGood, `"copy"`, `"build":"unixbench","cpu_value":4,"copy"`, 1)
	values, err := w.Parse([]byte(unixGood + "\n" + theirs))
	if got := byName(t, values); err != nil || got[sample.UnixBenchRatio] != 5./4 {
		t.Errorf("%v, %v", got, err)
	}
	// CPU time is that of the whole last batch, which the count holds in part.
	whole := strings.Replace(unixGood, `"count":5`, `"count":5,"whole":6`, 1)
	values, err = w.Parse([]byte(whole + "\n" + theirs))
	if got := byName(t, values); err != nil || math.Abs(got[sample.UnixBenchRatio]-6./4) > 1e-12 {
		t.Errorf("%v, %v", got, err)
	}
	for out, want := range map[string]string{
		theirs:                                   "no copy has printed its line",
		unixGood + "\n" + theirs + "\n" + theirs: "second time",
		unixGood + "\n" + strings.Replace(theirs, "unixbench", "other", 1):             `build "other"`,
		unixGood + "\n" + strings.Replace(theirs, `"cpu_value":4`, `"cpu_value":0`, 1): "by CPU time",
	} {
		if _, err := w.Parse([]byte(out)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", out, err, want)
		}
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
