// Package store keeps runs on disk: one directory a run, with a manifest
// written once and an append-only file of records, flushed after each trial.
package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
)

// SchemaVersion of the run directory. A reader refuses a newer one.
const SchemaVersion = 1

// NewSeed is a random seed below 2^53: readers of JSON whose numbers are all doubles keep it
// whole (RFC 8259, section 6).
func NewSeed() uint64 { return rand.Uint64N(1 << 53) }

// Manifest is all that is known before the first trial.
type Manifest struct {
	Schema   int       `json:"schema"`
	ID       string    `json:"id"` // of the run: time, study and machine, so that no two machines give one
	Created  time.Time `json:"created"`
	Tool     string    `json:"tool"`               // tare's version
	Compiler string    `json:"compiler,omitempty"` // of the C programs that run inside targets
	// CompilerFlags are those of the Unix tests' programs, CLibrary the library that the
	// dynamic ones ran with, as it calls itself, and LoaderDigests the SHA-256 of their
	// interpreter and C library, by the name of the file; "" and nil where none ran, and in
	// older runs.
	CompilerFlags string                     `json:"compilerFlags,omitempty"`
	CLibrary      string                     `json:"cLibrary,omitempty"`
	LoaderDigests map[string]string          `json:"loaderDigests,omitempty"`
	Study         study.Study                `json:"study"` // as expanded and defaulted
	Seed          uint64                     `json:"seed"`  // of the schedule's order
	Cells         []study.Cell               `json:"cells"`
	Metrics       map[string][]sample.Metric `json:"metrics"` // by workload name, in the order of display; the general ones (wall, ready, ...) included
	// Evidence is how the work of cells that are measured in rounds is proven, by
	// workload name.
	Evidence map[string]sample.Evidence `json:"evidence,omitempty"`
	Host     hostinfo.Host              `json:"host"`
	// Peer is the other machine of paths between two; nil for none.
	Peer *Peer `json:"peer,omitempty"`
	// CPUs are what an instance might use, by the name of its environment,
	// whatever the machine has; not of levels with a share of CPU time, nor in older runs.
	CPUs        map[string]hostinfo.CPUs `json:"cpus,omitempty"`
	Targets     map[string]driver.Facts  `json:"targets"`               // by driver name
	LeftOut     map[string]string        `json:"leftOut,omitempty"`     // target -> why it was not measured
	Image       string                   `json:"image"`                 // digest of the image that every cell ran in
	Rootfs      string                   `json:"rootfs,omitempty"`      // the user's own root file system, "" for the workbench
	ImageSource string                   `json:"imageSource,omitempty"` // the user's own image, "" for the workbench
	// Images are those of environments that have one of their own, by the name of the
	// environment.
	Images map[string]LevelImage `json:"images,omitempty"`
	// Dir is where tare was called, in which prepare commands run; "" in older runs.
	Dir string `json:"dir,omitempty"`
	// Guest is what the user asked of virtual machines; nil in older runs.
	Guest *driver.Guest    `json:"guest,omitempty"`
	Pilot map[string]Pilot `json:"pilot,omitempty"` // by group: what was foreseen before the first trial
	// MissingCounters are the perf counters that the machine lacks, by metric, with
	// the reason, where the plan reads them.
	MissingCounters map[string]string `json:"missingCounters,omitempty"`
	Trials          int               `json:"trials"`  // length of the plan
	Command         []string          `json:"command"` // argv of tare
	// Sums names the checksum that every record carries, see sum.go; "" in older runs,
	// whose records have none.
	Sums string `json:"sums,omitempty"`
}

// Peer is another machine, which had the far ends of paths.
type Peer struct {
	Here  string        `json:"here"`  // address of the machine that measured, as the other one reached it
	There string        `json:"there"` // address of the other one
	Host  hostinfo.Host `json:"host"`  // facts that the other one told of itself
}

// LevelImage is the root file system of an environment.
type LevelImage struct {
	Digest   string            `json:"digest"`             // as Manifest.Image
	Programs map[string]string `json:"programs,omitempty"` // digests of what workloads run there, by their names
}

// Pilot is what a few runs of a group's control told before the first trial.
type Pilot struct {
	Trial time.Duration `json:"trial"` // mean length of a trial, with all that lies outside the clock
	// MinimumDetectable is the smallest effect (a ratio minus 1) in the primary
	// metric that the planned blocks can show; 0 when the pilot could not tell.
	MinimumDetectable float64 `json:"minimumDetectable,omitempty"`
}

// Files of a run directory.
const (
	manifestFile    = "manifest.json"
	recordsFile     = "records.jsonl"
	environmentFile = "environment.json" // values of workloads' variables, for who owns the run
)

// writeJSON puts a file in place whole or not at all: readers see the directory as a
// run from the rename of its manifest on.
func writeJSON(root *os.Root, name string, mode fs.FileMode, v any) error {
	data, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return replace(root, name, mode, func(w io.Writer) error {
		_, err := w.Write(append(data, '\n'))
		return err
	})
}

func readManifest(dir string, root *os.Root) (Manifest, error) {
	data, err := sys.ReadForeignIn(root, manifestFile, limit.RunManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, fmt.Errorf("%w: %s holds no %s", ErrNotRun, dir, manifestFile)
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("run %s: %w", dir, err)
	}
	return decodeManifest(dir, data)
}

func decodeManifest(dir string, data []byte) (Manifest, error) {
	var version struct {
		Schema int `json:"schema"`
	}
	// The schema comes first and alone: a newer manifest may hold what this
	// build cannot decode.
	err := limit.RunManifest.CheckJSON(data)
	if err == nil {
		err = json.Unmarshal(data, &version)
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("%s: %s is damaged: %w", dir, manifestFile, err)
	}
	switch {
	case version.Schema > SchemaVersion:
		return Manifest{}, fmt.Errorf("%s was made by a newer tare: its schema is %d and this build knows up to %d: %w", dir, version.Schema, SchemaVersion, ErrNewer)
	case version.Schema < 1:
		return Manifest{}, fmt.Errorf("%w: %s in %s names no schema", ErrNotRun, manifestFile, dir)
	}
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return Manifest{}, fmt.Errorf("%s: %s is damaged: %w", dir, manifestFile, err)
	}
	if err := m.validate(); err != nil {
		return Manifest{}, fmt.Errorf("%s: %s is damaged: %w", dir, manifestFile, err)
	}
	return m, nil
}
