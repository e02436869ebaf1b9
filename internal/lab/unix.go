package lab

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
	"github.com/tarelab/tare/published"
)

// unixPublished is the publication that the Unix tests' runs stand beside.
const unixPublished = "docker-on-loongson"

// unixClaims puts a run beside the published study that it repeats. A run
// without any score has no claims but its failures.
func unixClaims(run *store.Run, claims *analysis.Claims) error {
	m := run.Manifest()
	if m.Study.Published != unixPublished {
		return nil
	}
	d, err := published.LoadAs[*published.DockerOnLoongson](unixPublished)
	if err != nil {
		return err
	}
	records, err := collect(run)
	if err != nil {
		return err
	}
	claims.Unix, err = analysis.UnixStudy(analysis.UnixInput{Cells: m.Cells, Records: records, Tables: claims.Tables, Published: d, Whetstone: whetstoneOf(m.Study), Emulated: m.Host.Emulated, Accels: provenance(m).Accels})
	if err != nil {
		return fmt.Errorf("run %s beside %s: %w", m.ID, unixPublished, err)
	}
	return nil
}

// unixWindow is the length of the timed windows of a study's Unix tests, "" where
// they differ and are not UnixBench's, and whether each test has UnixBench's own.
func unixWindow(s study.Study) (window string, own bool) {
	own = true
	var lengths []time.Duration
	for _, w := range s.Measured() {
		unixBench, isUnix := workload.UnixWindow(w.Kind)
		if !isUnix {
			continue
		}
		text := cmp.Or(w.Params["time"], s.Params["time"], unixBench.String())
		length, err := time.ParseDuration(text)
		if err != nil {
			return text, false // not reached: the plan has read it
		}
		own = own && length == unixBench
		lengths = append(lengths, length)
	}
	switch lengths = slices.Compact(slices.Sorted(slices.Values(lengths))); {
	case len(lengths) == 0:
		return "", false
	case len(lengths) == 1:
		return lengths[0].String(), own
	}
	return fmt.Sprintf("%s to %s", lengths[0], lengths[len(lengths)-1]), own
}

// whetstoneOf is the variant of Whetstone that a study runs, "" for none.
func whetstoneOf(s study.Study) string {
	for _, w := range s.Measured() {
		if w.Kind == "unix-whetstone" {
			return cmp.Or(w.Params["variant"], analysis.WhetstoneKept)
		}
	}
	return ""
}

// collect reads all records of a run.
func collect(run *store.Run) ([]sample.Record, error) {
	var records []sample.Record
	for r, err := range run.Records() {
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, nil
}
