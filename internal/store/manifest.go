// Package store keeps runs on disk: one directory a run, with a manifest
// written once and an append-only file of records, flushed after each trial.
package store

import (
	"time"

	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/target"
)

// SchemaVersion of the run directory. A reader refuses a newer one.
const SchemaVersion = 1

// Manifest is all that is known before the first trial.
type Manifest struct {
	Schema  int                        `json:"schema"`
	ID      string                     `json:"id"` // of the run: time and study, unique in the store
	Created time.Time                  `json:"created"`
	Tool    string                     `json:"tool"`  // tare's version
	Study   study.Study                `json:"study"` // as expanded and defaulted
	Seed    uint64                     `json:"seed"`  // of the schedule's order
	Cells   []study.Cell               `json:"cells"`
	Metrics map[string][]sample.Metric `json:"metrics"` // by workload name, in the order of display; the general ones (wall, ready, ...) included
	Host    hostinfo.Host              `json:"host"`
	Targets map[string]target.Facts    `json:"targets"`           // by driver name
	LeftOut map[string]string          `json:"leftOut,omitempty"` // target -> why it was not measured
	Image   string                     `json:"image"`             // digest of the workbench image
	Trials  int                        `json:"trials"`            // length of the plan
	Command []string                   `json:"command"`           // argv of tare
}
