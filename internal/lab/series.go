package lab

import (
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// kept parses the output of a payload that tells a series, and keeps it with the run.
func kept(run *store.Run, seq int, stdout []byte, parse func([]byte) ([]sample.Value, error)) ([]sample.Value, error) {
	values, err := parse(stdout)
	if err != nil {
		return nil, err
	}
	if err := run.KeepSeries(seq, stdout); err != nil {
		return nil, driver.Labf("%w", err)
	}
	return values, nil
}

// WatchStudy is the id of runs that tare watch records: they have no trials.
const WatchStudy = "watch"

// RecordWatch makes a run for the readings of a watch.
func RecordWatch(config Config) (*store.Run, error) {
	return store.Create(config.StateDir, store.Manifest{Tool: config.Version, Command: config.Command, Host: hostinfo.Gather(),
		Study: study.Study{ID: WatchStudy, Title: "Containers over time", Question: "What did each container use, and when?"}.WithDefaults()})
}
