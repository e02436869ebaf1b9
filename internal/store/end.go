package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
)

// endFile says why a run ended before the last block of its plan.
const endFile = "end.json"

// End is why a run ended before the last block of its plan.
type End struct {
	Blocks int           `json:"blocks"`           // that were measured
	Reason Reason        `json:"reason"`           // what ended it
	Took   time.Duration `json:"took"`             // by the process that ended it
	Widest float64       `json:"widest,omitempty"` // half-width of the widest primary interval, as a ratio minus 1; 0 where that is not known
	Cell   string        `json:"cell,omitempty"`   // that has it
}

// Reason is what ended a run.
type Reason string

// The reasons.
const (
	EndPrecision Reason = "precision" // every primary interval was narrow enough
	EndBudget    Reason = "budget"    // the next block would not have ended in time
)

// SetEnd notes that the run has ended. It is written whole or not at all.
func (r *Run) SetEnd(e End) error {
	if err := writeJSON(r.root, endFile, 0o644, e); err != nil {
		return fmt.Errorf("run %s: end: %w", r.manifest.ID, err)
	}
	return nil
}

// End is why the run ended before the last block of its plan; ok is false where it did
// not.
func (r *Run) End() (e End, ok bool, err error) {
	e, ok, err = readEnd(r.root)
	if ok && (e.Blocks < 1 || e.Blocks > r.manifest.Study.Blocks) {
		err = fmt.Errorf("%s: %w: %d of %d blocks", endFile, ErrCorrupt, e.Blocks, r.manifest.Study.Blocks)
	}
	if err != nil {
		return End{}, false, fmt.Errorf("run %s: %w", r.manifest.ID, err)
	}
	e.Cell = r.hiding.cell(e.Cell)
	return e, ok, nil
}

// readEnd reads what SetEnd wrote into a run's directory.
func readEnd(root *os.Root) (e End, ok bool, err error) {
	data, err := sys.ReadForeignIn(root, endFile, limit.RunEnd)
	if errors.Is(err, fs.ErrNotExist) {
		return End{}, false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &e)
	}
	if err != nil {
		return End{}, false, fmt.Errorf("%s: %w", endFile, err)
	}
	return e, true, nil
}
