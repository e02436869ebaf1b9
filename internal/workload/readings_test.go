package workload

import (
	"regexp"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/sample"
)

func TestReadings(t *testing.T) {
	const text = "events per second: 10.5\nevents per second: 12.25\ntotal: many\n"
	const document = `{"jobs": [{"read": {"iops": 1250.5}}, {"read": {"iops": "x"}}]}`
	match := func(re string) Reading {
		return Reading{Metric: sample.Metric{Name: "m"}, Match: regexp.MustCompile(re)}
	}
	path := func(p string) Reading { return Reading{Metric: sample.Metric{Name: "m"}, JSON: strings.Split(p, ".")} }
	for _, c := range []struct {
		reading Reading
		output  string
		want    float64
		err     string
	}{
		{match(`per second: *([0-9.]+)`), text, 12.25, ""},
		{match(`queries: (.*)`), text, 0, "nothing in the output matches"},
		{match(`total: (.*)`), text, 0, `"many" is not a number`},
		{match(`total: (x?)`), text, 0, `"" is not a number`},
		{path("jobs.0.read.iops"), document, 1250.5, ""},
		{path("jobs.1.read.iops"), document, 0, "is not a number"},
		{path("jobs.2.read.iops"), document, 0, "the list has 2 elements"},
		{path("jobs.0.write"), document, 0, "no jobs.0.write"},
		{path("jobs.0.read.iops.p99"), document, 0, "holds no others"},
		{path("jobs"), document, 0, "jobs is not a number"},
		{path("jobs"), "no JSON", 0, "is not JSON"},
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
