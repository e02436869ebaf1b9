package engine

import (
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/sys"
)

// What a process has left is taken away when it is dead, and it is dead when this
// boot's kernel has no such process where this one would see it.
func TestAlive(t *testing.T) {
	own, err := sys.Self()
	if err != nil {
		t.Fatal(err)
	}
	ended := own
	ended.Start++
	elsewhere := ended // in a container that shares the engine's socket
	elsewhere.Namespace++
	// On a2ee321 another boot was a dead one, also on another machine, whose containers
	// were removed through a forwarded socket while they ran.
	before := ended
	before.Boot = strings.Repeat("0", 32)
	for name, want := range map[string]bool{
		owner():                                 true,
		nameOf(own, "0123456789abcdef"):         true,
		nameOf(ended, "0123456789abcdef"):       false,
		nameOf(elsewhere, "0123456789abcdef"):   true,
		nameOf(before, "0123456789abcdef"):      true,
		"bench":                                 true,
		"1234-5678":                             true,
		nameOf(ended, "0123456789abcdef") + " ": true,
		"":                                      true,
	} {
		if got := alive(name); got != want {
			t.Errorf("%q: alive is %t", name, got)
		}
	}
	if name := containerdNamespace(owner()); len(name) > 76 { // containerd, pkg/identifiers
		t.Errorf("%s has %d letters", name, len(name))
	}
}
