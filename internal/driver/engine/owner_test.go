package engine

import (
	"os"
	"strings"
	"testing"
)

// What a process has left is taken away when it is dead, and it is dead when this
// boot's kernel has no such process where this one would see it.
func TestAlive(t *testing.T) {
	own := identify(os.Getpid())
	if own.start == 0 || own.namespace == 0 || own.boot == "" || owner() != own.String() {
		t.Fatalf("%q is %+v", owner(), own)
	}
	ended := own
	ended.start++
	elsewhere := ended // in a container that shares the engine's socket
	elsewhere.namespace++
	before := own
	before.boot = strings.Repeat("0", 8)
	for name, want := range map[string]bool{
		own.String():       true,
		ended.String():     false,
		elsewhere.String(): true,
		before.String():    false,
		"bench":            true,
		"1234-5678":        true,
		own.String() + " ": true,
		"":                 true,
	} {
		if got := alive(name); got != want {
			t.Errorf("%q: alive is %t", name, got)
		}
	}
}
