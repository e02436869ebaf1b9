package workload

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sample"
)

var nameRule = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

func TestDeclarations(t *testing.T) {
	kinds := map[string]bool{}
	for _, w := range All() {
		if kinds[w.Kind()] || !nameRule.MatchString(w.Kind()) || w.Help() == "" {
			t.Errorf("kind %q is taken, badly named or without help", w.Kind())
		}
		kinds[w.Kind()] = true
		seen := map[string]bool{}
		for _, m := range withGeneral(w) {
			if seen[m.Name] || !nameRule.MatchString(m.Name) || m.Unit == "" || m.Better == "" || m.Help == "" {
				t.Errorf("%s: metric %+v is taken or not wholly declared", w.Kind(), m)
			}
			seen[m.Name] = true
		}
		for _, p := range w.Params() {
			if p.Help == "" || !nameRule.MatchString(p.Name) {
				t.Errorf("%s: parameter %+v", w.Kind(), p)
			}
		}
		if _, err := Check(w.Params(), nil); err != nil {
			t.Errorf("%s: its defaults are refused: %v", w.Kind(), err)
		}
	}
}

func TestResolve(t *testing.T) {
	job, err := Resolve("sysbench-cpu", map[string]string{"time": "3s", "threads": "2"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/usr/bin/sysbench", "cpu", "--time=3", "--threads=2", "--cpu-max-prime=10000", "run"}
	if !slices.Equal(job.Args, want) {
		t.Errorf("args %q", job.Args)
	}
	if job.Metrics[0].Name != "events" || job.Parse == nil || !slices.Equal(job.Needs, []string{"sysbench"}) {
		t.Errorf("%+v", job)
	}
}

func TestPrimaryMetric(t *testing.T) {
	start, err := Resolve("start", nil, nil)
	if err != nil || start.Metrics[0].Name != sample.Ready || start.Parse != nil || len(start.Args) != 0 {
		t.Errorf("%+v, %v", start, err)
	}
	argv := []string{"sh", "-c", "exit 3"}
	cmd, err := Resolve("command", nil, argv)
	if err != nil || cmd.Metrics[0].Name != sample.Wall || cmd.Parse != nil || !slices.Equal(cmd.Args, argv) {
		t.Errorf("%+v, %v", cmd, err)
	}
	for _, m := range cmd.Metrics { // it runs without the mark, which alone tells them
		if m.Name == sample.Ready || m.Name == sample.Run {
			t.Errorf("a command has the metric %s", m.Name)
		}
	}
}

// An instance that is held after a load runs that first, and then what holds it.
func TestHoldLoads(t *testing.T) {
	job, err := Resolve("hold", map[string]string{"load": "64MiB", "settle": "2s"}, nil)
	if err != nil || !job.Hold || job.Settle != 2*time.Second || job.Memory != 64<<20 || !slices.Contains(job.Needs, "sysbench") || job.Args[len(job.Args)-1] != "67108864" {
		t.Errorf("%+v, %v", job, err)
	}
	if idle, err := Resolve("hold", nil, nil); err != nil || !idle.Hold || len(idle.Args) != 0 || idle.Settle != 0 {
		t.Errorf("%+v, %v", idle, err)
	}
	if _, err := Resolve("hold", map[string]string{"load": "3MiB"}, nil); err == nil || !strings.Contains(err.Error(), "no power of two") {
		t.Error(err)
	}
}

// A few KiB of gzip can hold readings by the million, each of all three containers.
func TestLoadReadingsAreBounded(t *testing.T) {
	text := "container package a\ncontainer agent a\ncontainer late a\n" + strings.Repeat(`{"id":"a"}`+"\n", limit.RunSeries.Items/3+1)
	if _, err := ParseLoad([]byte(text)); !errors.As(err, new(*limit.Error)) {
		t.Errorf("%v", err)
	}
}

func TestResolveRefuses(t *testing.T) {
	for _, c := range []struct {
		kind   string
		params map[string]string
		argv   []string
		says   string
	}{
		{"sysbnch-cpu", nil, nil, `did you mean "sysbench-cpu"?`},
		{"zzzzzzzzzzzz", nil, nil, "there are: start, hold, command"},
		{"sysbench-cpu", map[string]string{"thread": "1"}, nil, `did you mean "threads"?`},
		{"sysbench-cpu", map[string]string{"threads": "0"}, nil, "outside 1 to 4096"},
		{"sysbench-cpu", map[string]string{"threads": "many"}, nil, "not a whole number"},
		{"sysbench-cpu", map[string]string{"time": "1500ms"}, nil, "not a multiple of 1s"},
		{"sysbench-cpu", map[string]string{"time": "-1s"}, nil, "outside 1s to 1h0m0s"},
		{"sysbench-cpu", map[string]string{"time": "5"}, nil, "not a duration"},
		{"sysbench-cpu", nil, []string{"x"}, "takes no args"},
		{"sysbench-memory", map[string]string{"block": "-4KiB"}, nil, "not a size"},
		{"sysbench-memory", map[string]string{"block": "4 parsecs"}, nil, "not a size"},
		{"sysbench-memory", map[string]string{"operation": "raed"}, nil, `did you mean "read"?`},
		{"fio", map[string]string{"dir": "tmp"}, nil, "not an absolute path"},
		{"fio", map[string]string{"block": "513"}, nil, "not a multiple of 512B"},
		{"command", nil, nil, "args is empty"},
		{"command", nil, []string{""}, "args is empty"},
		{"start", map[string]string{"a": "b"}, nil, "none exists"},
	} {
		_, err := Resolve(c.kind, c.params, c.argv)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %v %q: error %v, want one with %q", c.kind, c.params, c.argv, err, c.says)
		}
	}
}

func TestNumbersAreInBaseUnits(t *testing.T) {
	params := []Param{
		{Name: "t", Type: Duration, Default: "1500ms", Max: int64(time.Hour)},
		{Name: "s", Type: Size, Default: "4KiB", Max: 1 << 40},
		{Name: "k", Type: Size, Default: "4k", Max: 1 << 40},
		{Name: "n", Type: Integer, Default: "7", Max: 10},
	}
	v, err := Check(params, map[string]string{"n": "9"})
	if err != nil {
		t.Fatal(err)
	}
	if v.Duration("t") != 1500*time.Millisecond || v.Bytes("s") != 4096 || v.Bytes("k") != 4096 || v.Int("n") != 9 {
		t.Errorf("%+v", v)
	}
}

func FuzzCheck(f *testing.F) {
	for _, s := range []string{"1s", "4KiB", "-1", "9e99", "1h1h", "0x10", "٣"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range fio.Params(fio{}) {
			v, err := Check([]Param{p}, map[string]string{p.Name: text})
			if err != nil || p.Type == Choice || p.Type == Path {
				continue
			}
			if n := v.Int(p.Name); n < p.Min || n > p.Max {
				t.Errorf("%s: %q gave %d", p.Name, text, n)
			}
		}
	})
}
