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
	Schema      int                        `json:"schema"`
	ID          string                     `json:"id"` // of the run: time and study, unique in the store
	Created     time.Time                  `json:"created"`
	Tool        string                     `json:"tool"`  // tare's version
	Study       study.Study                `json:"study"` // as expanded and defaulted
	Seed        uint64                     `json:"seed"`  // of the schedule's order
	Cells       []study.Cell               `json:"cells"`
	Metrics     map[string][]sample.Metric `json:"metrics"` // by workload name, in the order of display; the general ones (wall, ready, ...) included
	Host        hostinfo.Host              `json:"host"`
	Targets     map[string]target.Facts    `json:"targets"`               // by driver name
	LeftOut     map[string]string          `json:"leftOut,omitempty"`     // target -> why it was not measured
	Image       string                     `json:"image"`                 // digest of the image that every cell ran in
	Rootfs      string                     `json:"rootfs,omitempty"`      // the user's own root file system, "" for the workbench
	ImageSource string                     `json:"imageSource,omitempty"` // the user's own image, "" for the workbench
	Pilot       map[string]Pilot           `json:"pilot,omitempty"`       // by group: what was foreseen before the first trial
	Trials      int                        `json:"trials"`                // length of the plan
	Command     []string                   `json:"command"`               // argv of tare
}

// Pilot is what a few runs of a group's control told before the first trial.
type Pilot struct {
	Trial time.Duration `json:"trial"` // mean length of a trial, with all that lies outside the clock
	// MinimumDetectable is the smallest effect (a ratio minus 1) in the primary
	// metric that the planned blocks can show; 0 when the pilot could not tell.
	MinimumDetectable float64 `json:"minimumDetectable,omitempty"`
}
