package lab

import (
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/target"
)

// A run does not go on with another engine, of which a user's own shows no binary.
func TestRunsDoNotGoOnWithAnotherEngine(t *testing.T) {
	of := func(version string) store.Manifest {
		return store.Manifest{Targets: map[string]target.Facts{"docker": {Version: version}}}
	}
	if err := sameGround(of("20.10.24"), of("20.10.24")); err != nil {
		t.Error(err)
	}
	if err := sameGround(of("20.10.24"), of("28.0.1")); err == nil || !strings.Contains(err.Error(), "target docker is not what it was when the run began (20.10.24)") {
		t.Error(err)
	}
}
