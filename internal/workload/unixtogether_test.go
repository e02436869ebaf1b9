package workload

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/sample"
)

func TestUnixTogether(t *testing.T) {
	for _, c := range []struct {
		name         string
		starts, ends []float64
		overlap      float64 // -1: not known
		says         string
	}{
		{"one instance", []float64{11}, []float64{12}, -1, ""},
		{"nothing printed", nil, nil, -1, ""},
		{"together", []float64{11, 11.01}, []float64{12, 12}, 0.99, ""},
		{"apart by a little", []float64{11, 11.1}, []float64{12, 12.1}, 0.9, "shared 90.00 % of their timed window, less than 98 %"},
		{"apart", []float64{11, 13}, []float64{12, 14}, 0, "shared 0.00 %"},
		{"a clock of its own", []float64{11, 0.5}, []float64{12, 1.5}, -1, "not on the host's clock"},
		{"a clock ahead", []float64{11, 900}, []float64{12, 901}, -1, "not on the host's clock"},
		{"late in all of them", []float64{11.5, 11.5}, []float64{12, 12}, 0.5, "shared 50.00 %"}, // not all of a window that began late
		{"copies apart inside", []float64{12, 12}, []float64{11, 12}, 0, "shared 0.00 %"},
	} {
		timed := slices.Repeat([]float64{1}, len(c.starts))
		values, warnings := unixTogether(10, 20, map[string][]float64{sample.UnixStart: c.starts, sample.UnixEnd: c.ends, sample.UnixTimed: timed})
		switch {
		case c.overlap < 0 && len(values) > 0:
			t.Errorf("%s: %v, though it cannot be known", c.name, values)
		case c.overlap >= 0 && (len(values) != 1 || math.Abs(values[0].Value-c.overlap) > 1e-9 || values[0].Metric != sample.UnixContainersOverlap):
			t.Errorf("%s: %v, want %v", c.name, values, c.overlap)
		}
		var got string
		for _, w := range warnings {
			got += w.String()
		}
		if (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%s: warnings %q, want %q", c.name, got, c.says)
		}
	}
}

// Only a job that meets others has a metric over all of them.
func TestUnixJobWithBarrier(t *testing.T) {
	job, err := Resolve("unix-whetstone", map[string]string{"barrier": "shared", "copies": "3", "time": "2s"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range job.Metrics {
		names = append(names, m.Name)
	}
	if got := strings.Join(names, " "); !strings.HasPrefix(got, "score ") || !strings.Contains(got, sample.UnixTimed+" "+sample.UnixContainersOverlap+" "+sample.Wall) {
		t.Errorf("metrics %s", got)
	}
	for _, test := range []struct {
		own  bool
		want int64
	}{{false, 3*2<<20 + 16000<<10}, {true, 3*2<<20 + 3*16000<<10}} {
		if got := unixTests()[5].memory(3, test.own); got != test.want {
			t.Errorf("3 copies of file-copy-4096, own files %v: %d bytes, want %d", test.own, got, test.want)
		}
	}
	if job.Barrier != 3 || job.Memory != 6<<20 || job.Length.Seconds() != 2 {
		t.Errorf("%+v", job.Command)
	}
}
