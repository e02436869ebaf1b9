package launch

import (
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// NoteOld notes in facts what this kernel is too old for, where that changes what is
// measured: how a payload's end is told and where its root comes from, as the launcher
// does both for every target, and the calls that the driver names besides.
func NoteOld(facts driver.Facts, also ...string) {
	if old := oldNote(sys.MissingCalls(), also); old != "" {
		facts.Notes[driver.NoteOldKernel] = old
	}
}

func oldNote(missing []sys.Call, also []string) string {
	measured := append([]string{sys.CallPidfd, sys.Overlayfs}, also...)
	var notes []string
	for _, c := range missing {
		if slices.Contains(measured, c.Name) {
			notes = append(notes, c.Name+": "+c.Instead)
		}
	}
	return strings.Join(notes, "; ")
}
