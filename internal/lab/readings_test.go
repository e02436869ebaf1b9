package lab

import (
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
)

func TestReadingsOfACommand(t *testing.T) {
	job, err := workload.Resolve(workload.KindCommand, nil, []string{"sysbench"})
	if err != nil {
		t.Fatal(err)
	}
	own := study.Reading{Name: "page-time", Unit: "s", Better: "lower", JSON: "pages.0.time"}
	for name, c := range map[string]struct {
		readings []study.Reading
		want     string // of the error; "" for none
	}{
		"tare's own name": {[]study.Reading{{Name: "events", Match: "per second: *([0-9.]+)"}, own}, ""},
		"only a name":     {[]study.Reading{{Name: "pages", Match: "(x)"}}, "no metric of tare has this name"},
		"no unit":         {[]study.Reading{{Name: "pages", Better: "higher", Match: "(x)"}}, "unit"},
		"unknown unit":    {[]study.Reading{{Name: "pages", Unit: "pages", Better: "higher", Match: "(x)"}}, "unit"},
		"no direction":    {[]study.Reading{{Name: "pages", Unit: "1", Match: "(x)"}}, "lower or higher"},
		"other direction": {[]study.Reading{{Name: "events", Better: "lower", Match: "(x)"}}, "catalogue"},
		"a bad name":      {[]study.Reading{{Name: "Pages", Unit: "1", Better: "lower", Match: "(x)"}}, "lower-case"},
		"nothing to read": {[]study.Reading{{Name: "events"}}, "match or json"},
		"both":            {[]study.Reading{{Name: "events", Match: "(x)", JSON: "x"}}, "match or json"},
		"no group":        {[]study.Reading{{Name: "events", Match: "x"}}, "0 groups"},
		"two groups":      {[]study.Reading{{Name: "events", Match: "(x)(y)"}}, "2 groups"},
		"no expression":   {[]study.Reading{{Name: "events", Match: "("}}, "missing"},
		"twice":           {[]study.Reading{own, own}, "second reading"},
		"every command's": {[]study.Reading{{Name: "wall", Match: "(x)"}}, "choose another"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := withReadings(job, c.readings)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %q", err, c.want)
				}
				return
			}
			if err != nil || got.Metrics[0] != (sample.Metric{Name: "events", Unit: "1/s", Better: "higher", Help: "taken from the command's output"}) || got.Metrics[1].Name != "page-time" {
				t.Fatalf("%v, %+v", err, got.Metrics)
			}
		})
	}
	if _, err := withReadings(workload.Job{Kind: "fio"}, []study.Reading{own}); err == nil {
		t.Error("readings of another workload's output were taken")
	}
}
