package workload

import (
	"regexp"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sample"
)

func TestReadings(t *testing.T) {
	const text = "events per second: 10.5\nevents per second: 12.25\ntotal: many\n"
	const document = `{"jobs": [{"read": {"iops": 1250.5}}, {"read": {"iops": "x"}}]}`
	match := func(re string) Reading {
		return Reading{Metric: sample.Metric{Name: "m"}, Factor: 1, Match: regexp.MustCompile(re)}
	}
	path := func(p string) Reading {
		return Reading{Metric: sample.Metric{Name: "m"}, Factor: 1, JSON: strings.Split(p, ".")}
	}
	milli := match(`total: ([0-9]+)ms`)
	milli.Factor = 1e-3
	for _, c := range []struct {
		reading Reading
		output  string
		want    float64
		err     string
	}{
		{match(`per second: *([0-9.]+)`), text, 12.25, ""},
		{match(`queries: (.*)`), text, 0, "nothing in its standard output matches"},
		{match(`^total: (.*)$`), text, 0, "(?m)"},
		{match(`first ([0-9.]+.)`), "first 12.5\r\n", 12.5, ""},
		{match(`total: (.*)`), text, 0, `"many" is not a number`},
		{match(`total: (x?)`), text, 0, `"" is not a number`},
		{path("jobs.0.read.iops"), document, 1250.5, ""},
		{path("jobs.1.read.iops"), document, 0, "is not a number"},
		{path("jobs.2.read.iops"), document, 0, "the list has 2 elements"},
		{path("jobs.0.write"), document, 0, "no jobs.0.write"},
		{path("jobs.0.read.iops.p99"), document, 0, "holds no others"},
		{path("jobs"), document, 0, "jobs is not a number"},
		{path("jobs"), "no JSON", 0, "is not JSON"},
		{path("p.99.000000"), `{"p": {"99.000000": 7, "99": {"5": 8}}}`, 7, ""},
		{path("p.99.900000"), `{"p": {"95.000000": 7, "99.900000": 8}}`, 8, ""},
		{path("a"), "{\"a\": 1}\n{\"a\": 2}\n", 0, "goes on after"},
		{path("a"), "{\"a\": 1} done", 0, "goes on after"},
		{path("a"), "[" + strings.Repeat("{},", 1<<19) + "1]", 0, "JSON output of a payload has more than 250000 entries"},
		{path("a"), strings.Repeat("[", 65), 0, "JSON output of a payload has more than 64 levels"},
		{milli, "total: 1500ms", 1.5, ""},
		{match(`total: (.*)`), "total: -1", 0, "cannot have been measured"},
		{match(`total: (.*)`), "total: NaN", 0, "cannot have been measured"},
		{match(`total: (.*)`), "total: inf", 0, "cannot have been measured"},
	} {
		got, err := Read([]Reading{c.reading}, []byte(c.output))
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%+v: %v, %v, want %q", c.reading, got, err, c.err)
			}
			continue
		}
		if err != nil || len(got) != 1 || got[0] != (sample.Value{Metric: "m", Value: c.want}) {
			t.Errorf("%+v: %v, %v, want %v", c.reading, got, err, c.want)
		}
	}
}

// What a payload may print stays within the memory of its row.
func TestReadingsMemory(t *testing.T) {
	most := limit.PayloadJSON.Items - 3
	for name, text := range map[string]string{
		"objects": "[" + strings.Repeat(`{"a":1,"b":2,"c":3},`, most) + "{}]",
		"numbers": "[" + strings.Repeat("1,", 8*most) + "1]",
	} {
		if err := limit.PayloadJSON.CheckAlloc(func() {
			if _, err := atPath([]byte(text), []string{"x"}); err == nil || !strings.Contains(err.Error(), "has no x") {
				t.Errorf("%s: %v", name, err)
			}
		}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
