package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode"

	"golang.org/x/perf/benchfmt"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// Benchstat writes the samples of runs in the Go benchmark format (go.dev/design/14313-benchmark-format),
// which benchstat and its like compare: a line for each sample of a primary metric,
// with the run, the machine and the version as configuration. A target is the part
// /target= of a line's name, in which a slash is a dot.
func Benchstat(w io.Writer, runs ...Input) error {
	out := benchfmt.NewWriter(w)
	told := map[string]bool{}
	for _, in := range runs {
		config, cells := benchConfig(in.Manifest), cellsByID(in.Manifest.Cells)
		for _, t := range in.Claims.Tables {
			if !t.Primary {
				continue
			}
			unit := benchUnit(t.Metric)
			if !told[unit] && t.Metric.Better != "" {
				told[unit] = true
				better := benchfmt.UnitMetadata{UnitMetadataKey: benchfmt.UnitMetadataKey{Unit: unit, Key: "better"}, OrigUnit: unit, Value: string(t.Metric.Better)}
				if err := out.Write(&better); err != nil {
					return fmt.Errorf("write the benchmark format: %w", err)
				}
			}
			for _, r := range t.Rows {
				result := benchfmt.Result{Config: config, Name: benchName(t.Workload, r.Label, cells[r.Cell]), Iters: 1}
				for _, s := range r.Samples {
					if math.IsNaN(s) || math.IsInf(s, 0) {
						continue
					}
					result.Values = []benchfmt.Value{{Value: s, Unit: unit}}
					if err := out.Write(&result); err != nil {
						return fmt.Errorf("write the benchmark format: %w", err)
					}
				}
			}
		}
	}
	return nil
}

// benchConfig are the facts of a run that its lines stand under.
func benchConfig(m store.Manifest) (config []benchfmt.Config) {
	for _, fact := range []struct{ key, value string }{
		{"tare", m.Tool}, {"study", m.Study.ID}, {"run", m.ID}, {"machine", m.Host.Hostname}, {"cpu", m.Host.CPU}, {"kernel", m.Host.Kernel}, {"image", m.Image},
	} {
		if fact.value = clean(fact.value); fact.value != "" {
			config = append(config, benchfmt.Config{Key: fact.key, Value: []byte(fact.value), File: true})
		}
	}
	return config
}

func cellsByID(all []study.Cell) map[string]study.Cell {
	cells := map[string]study.Cell{}
	for _, c := range all {
		cells[c.ID] = c
	}
	return cells
}

// benchUnit is the metric and its unit by the format's conventions: "ready-sec".
func benchUnit(m sample.Metric) string {
	unit, known := map[sample.Unit]string{sample.Seconds: "sec", sample.Bytes: "B", sample.PerSecond: "op/s", sample.BytesPerSecond: "B/s", sample.BitsPerSecond: "bit/s"}[m.Unit]
	if !known {
		return benchWord(m.Name)
	}
	return benchWord(m.Name) + "-" + unit
}

// benchName is "Start/target=runc/instances=8".
func benchName(workload, label string, c study.Cell) benchfmt.Name {
	name := strings.ToUpper(benchWord(workload)[:1]) + benchWord(workload)[1:] + "/target=" + benchWord(label)
	if c.Environment != "" {
		name += "/environment=" + benchWord(c.Environment)
	}
	if c.Copies > 1 {
		name += fmt.Sprintf("/instances=%d", c.Copies)
	}
	return benchfmt.Name(name)
}

// benchWord is a name without what ends a word of the format, and with something in it.
func benchWord(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '/':
			return '.'
		case unicode.IsSpace(r) || !unicode.IsPrint(r):
			return '_'
		}
		return r
	}, s)
	if s == "" {
		return "_"
	}
	return s
}
