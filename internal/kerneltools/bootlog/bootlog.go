// Package bootlog reads what a kernel said while it booted, from a dmesg, a
// serial console's log or a journal, and says where the time went: steps,
// initcalls, waits, phases, subsystems, units. It is pure: text in, numbers out.
package bootlog

import (
	"errors"
	"fmt"
	"time"
)

// ErrNoTimes says that no line of a log has a time of its own.
var ErrNoTimes = errors.New("no line has a time: boot with printk.time=1 and take dmesg or the serial log, or journalctl -b -o short-monotonic")

// ErrRelative says that a log's times are relative to the line before, with gaps.
var ErrRelative = errors.New("its times are relative to the line before and leave gaps (dmesg -e, -H, --reltime or --time-format=delta): take plain dmesg")

// Clock is what stamped a boot's lines.
type Clock string

// The clocks, the best first.
const (
	Kernel  Clock = "kernel"  // printk.time: since the kernel's clock started
	Journal Clock = "journal" // CLOCK_MONOTONIC as journald wrote it
	Host    Clock = "host"    // whoever read the console, such as grabserial
	Wall    Clock = "wall"    // time of day; 0 is the boot's first line
)

// A Line is one line of a boot.
type Line struct {
	Number int           `json:"number"` // in the file, from 1
	At     time.Duration `json:"at"`     // since the start of the boot's clock
	Timed  bool          `json:"timed"`  // false: it has no time, and At is that of the line before, or of the boot's first
	Source string        `json:"source"` // the program that wrote it; empty: the kernel
	Unit   string        `json:"unit"`   // the systemd unit that it is about, where the journal says so
	Text   string        `json:"text"`   // without stamp, colours and carriage return
}

// A Boot is what one boot wrote.
type Boot struct {
	Kernel  string `json:"kernel"`  // version, empty where the beginning is missing
	Command string `json:"command"` // the kernel's command line, as far as the log has it
	Clock   Clock  `json:"clock"`
	// Ahead is when, by whoever read the console, the boot's clock was 0; 0 where
	// nobody stamped its lines.
	Ahead time.Duration `json:"ahead,omitempty"`
	// Processes are those that tare's agent has seen in the guest, by their start.
	Processes []Process `json:"processes,omitempty"`
	Lines     []Line    `json:"lines"`
	Warnings  []string  `json:"warnings,omitempty"`
}

// End is the time of the last line that has one.
func (b *Boot) End() time.Duration {
	var end time.Duration
	for _, l := range b.Lines {
		end = max(end, l.At)
	}
	return end
}

// warn adds a warning.
func (b *Boot) warn(format string, args ...any) {
	b.Warnings = append(b.Warnings, fmt.Sprintf(format, args...))
}
