package bootlog

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

const banner = "Linux version "

// precursor is what some kernels say before their banner: arm64 and riscv the CPU
// that they boot on, Intel's machines their early microcode, kernels before 4.5
// their control groups.
var precursor = regexp.MustCompile(`^(Booting Linux on |Initializing cgroup subsys |microcode: )`)

const (
	// backwards is how far a kernel's clock may fall for good within a boot, where it
	// is changed for a better one.
	backwards = time.Second
	// aside is how far lines may be in disorder, because several CPUs write them.
	aside = 10 * time.Millisecond
	// asides are how many lines in a row may have another clock than the boot's.
	asides = 4
	// fragment is how few lines before a banner, themselves without one, are no end
	// of another boot.
	fragment = 6
)

// A span is the boot that separate is in.
type span struct {
	begin    int // its first entry
	bannered bool
	last     map[Clock]time.Duration // the latest time by clock
	level    time.Duration           // of the kernel's clock, the latest time since it was last changed
}

// separate cuts a file where a new boot begins: at journalctl's separator, where
// journald's boot id changes, where the kernel's clock starts again, and at a
// banner that is not of the boot before it. A few lines whose stamps are far below
// their neighbours' begin none: a CPU that comes up has an old clock, or a program
// prints an older log.
func separate(entries []entry) [][]entry {
	var boots [][]entry
	now := span{last: map[Clock]time.Duration{}}
	cut := func(i int) {
		if i > now.begin {
			boots = append(boots, entries[now.begin:i])
		}
		now = span{begin: i, last: map[Clock]time.Duration{}}
	}
	for i := range entries {
		e := &entries[i]
		at, stamped := e.stamps.get(Kernel)
		fell := stamped && at < now.level-aside
		if fell && !restarted(entries, i, Kernel, now.level) {
			e.quote(at)
			continue
		}
		switch {
		case e.newBoot, stamped && at < now.level-backwards, i > now.begin && e.boot != entries[i-1].boot && e.boot != "" && entries[i-1].boot != "":
			cut(i)
		case e.isBanner() && now.endsBefore(entries, i):
			first := i
			for first > now.begin && precursor.MatchString(entries[first-1].text) {
				first--
			}
			cut(first)
		}
		now.bannered = now.bannered || e.isBanner()
		for c, t := range e.stamps.all() {
			now.last[c] = max(now.last[c], t)
		}
		if fell || stamped && at > now.level {
			now.level = at
		}
	}
	cut(len(entries))
	return boots
}

func (e *entry) isBanner() bool { return e.source == "" && strings.HasPrefix(e.text, banner) }

// quote makes a stamp the text that it is.
func (e *entry) quote(at time.Duration) {
	e.stamps.unset(Kernel)
	e.text, e.quoted = fmt.Sprintf("[%12.6f] %s", at.Seconds(), e.text), true
}

// restarted says whether a clock that has fallen below last at the entry first
// started again there: where it stays below, or a banner begins a line before it is
// back.
func restarted(entries []entry, first int, c Clock, last time.Duration) bool {
	below := 0
	for i := first; i < len(entries) && below <= asides; i++ {
		at, stamped := entries[i].stamps.get(c)
		switch {
		case entries[i].newBoot, entries[i].isBanner() && !inLine(entries, i):
			return true
		case stamped && at >= last:
			return false
		case stamped:
			below++
		}
	}
	return below > 1 || !inLine(entries, first)
}

// inLine says whether an entry stands behind another in its line.
func inLine(entries []entry, i int) bool {
	return i > 0 && entries[i-1].number == entries[i].number
}

// endsBefore says whether the banner at i begins another boot. It does not where
// the boot has only begun, or where its clock goes on.
func (s *span) endsBefore(entries []entry, i int) bool {
	e := &entries[i]
	if e.boot != "" || !s.bannered && i-s.begin < fragment { // journald's boot id knows better
		return false
	}
	for _, c := range []Clock{Kernel, Journal} {
		at, stamped := e.stamps.get(c)
		last, known := s.last[c]
		switch {
		case stamped && known:
			return s.bannered && at == last || at < last && restarted(entries, i, c, last)
		case known: // cat /proc/version
			return false
		}
	}
	_, dated := e.stamps.get(Wall)
	return s.bannered || dated
}
