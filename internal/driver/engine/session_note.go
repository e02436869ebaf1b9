package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/tarelab/tare/internal/driver"
)

// note is a file in the session's directory that names the user's engine in which the
// session makes things. It is written before the first of them, so that a sweep after a
// kill finds them all.
type note struct {
	Socket string `json:"socket"`
	Owner  string `json:"owner"`
}

func (e *engine) noteFile(runDir string) string { return filepath.Join(runDir, e.name+".json") }

// note writes the note for the user's own engine at socket.
func (e *engine) note(socket string) error {
	text, err := json.Marshal(note{socket, owner()})
	if err == nil {
		err = os.WriteFile(e.noteFile(e.lab.RunDir), text, 0o600)
	}
	if err != nil {
		return driver.Labf("note that %s is used: %w", e.flavor.name, err)
	}
	return nil
}

// forget removes the note after everything that it leads to was removed.
func (e *engine) forget(runDir string) error {
	if err := os.Remove(e.noteFile(runDir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return driver.Labf("note that %s was used: %w", e.flavor.name, err)
	}
	return nil
}

// sweepTime bounds how long the user's own engine may take to remove what a killed run
// has left: hundreds of containers, some at a time.
const sweepTime = 10 * time.Minute

// sweepNoted removes what the process of the note in runDir has left.
func (e *engine) sweepNoted(ctx context.Context, runDir string) ([]string, error) {
	text, err := os.ReadFile(e.noteFile(runDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var left note
	if err == nil {
		err = json.Unmarshal(text, &left)
	}
	if err != nil {
		return nil, fmt.Errorf("note of what was made in %s: %w", e.flavor.name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	if err := e.flavor.daemon.removeAll(ctx, left.Socket, left.Owner); err != nil {
		return nil, fmt.Errorf("take away what was made in %s at %s: %w (where that engine is gone for good, remove %s)",
			e.flavor.name, left.Socket, err, e.noteFile(runDir))
	}
	return []string{fmt.Sprintf("removed what was made in %s at %s", e.flavor.name, left.Socket)}, e.forget(runDir)
}
