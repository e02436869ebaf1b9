package engine

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarelab/tare/internal/driver"
)

// What a killed run has left in a user's own engine is found by the note in its
// directory, by any driver of that engine, and is removed once.
func TestSweepByNote(t *testing.T) {
	var removed atomic.Int64
	socket := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.44")
		switch {
		case r.Method == http.MethodDelete:
			removed.Add(1)
		case strings.HasSuffix(r.URL.Path, "/containers/json") && strings.Contains(r.URL.RawQuery, owner()):
			fmt.Fprint(w, `[{"Id":"left"}]`)
		default:
			fmt.Fprint(w, "[]")
		}
	})
	runDir := t.TempDir()
	killed := newEngine(driver.Lab{RunDir: runDir}, docker(), "docker")
	if err := killed.note(socket); err != nil {
		t.Fatal(err)
	}
	var did []string
	for _, d := range Drivers(driver.Lab{}) {
		said, err := d.(driver.Sweeper).Sweep(t.Context(), runDir)
		if err != nil {
			t.Errorf("%s: %v", d.Name(), err)
		}
		did = append(did, said...)
	}
	if len(did) != 1 || !strings.Contains(did[0], "docker at "+socket) || removed.Load() != 1 {
		t.Errorf("%d were removed, told as %q", removed.Load(), did)
	}
}

// An engine that does not answer keeps its note, and the error says what to do where
// it never will again.
func TestSweepWithoutTheEngine(t *testing.T) {
	runDir := t.TempDir()
	killed := newEngine(driver.Lab{RunDir: runDir}, docker(), "docker")
	if err := killed.note("/no/socket"); err != nil {
		t.Fatal(err)
	}
	_, err := dockers(driver.Lab{}, docker())[0].(driver.Sweeper).Sweep(t.Context(), runDir)
	if err == nil || !strings.Contains(err.Error(), "remove "+killed.noteFile(runDir)) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(killed.noteFile(runDir)); err != nil {
		t.Error(err)
	}
}
