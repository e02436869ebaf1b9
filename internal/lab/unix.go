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
	claims.Unix, err = analysis.UnixStudy(analysis.UnixInput{Cells: m.Cells, Records: records, Tables: claims.Tables, Published: d, Emulated: m.Host.Emulated})
	if err != nil {
		return fmt.Errorf("run %s beside %s: %w", m.ID, unixPublished, err)
	}
	return nil
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
