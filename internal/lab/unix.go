package lab

import (
	"fmt"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/published"
)

// unixPublished is the publication that the Unix tests' runs stand beside.
const unixPublished = "docker-on-loongson"

// unixClaims puts a run beside the published study that it repeats; nil for a
// run of another study. A run without any score has no claims but its failures.
func unixClaims(run *store.Run) (*analysis.UnixClaims, error) {
	m := run.Manifest()
	if m.Study.Published != unixPublished {
		return nil, nil
	}
	d, err := published.LoadAs[*published.DockerOnLoongson](unixPublished)
	if err != nil {
		return nil, err
	}
	records, err := collect(run)
	if err != nil {
		return nil, err
	}
	claims, err := analysis.UnixStudy(analysis.UnixInput{Cells: m.Cells, Records: records, Published: d, Emulated: m.Host.Emulated})
	if err != nil {
		return nil, fmt.Errorf("run %s beside %s: %w", m.ID, unixPublished, err)
	}
	return claims, nil
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
