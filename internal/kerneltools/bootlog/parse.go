package bootlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/kerneltools/textfile"
	"github.com/tarelab/tare/internal/limit"
)

// mostLine is how much of a line is read, in bytes.
const mostLine = 64 << 10

// Parse reads a log, plain or compressed with gzip, and returns its boots, in
// the file's order. A log without any time is ErrNoTimes; one that only a machine
// wrote that was long up is taken for one boot, with a warning; textfile.Read says of
// what is no text.
func Parse(r io.Reader) ([]Boot, error) {
	text, cutShort, err := textfile.Read(r, limit.BootLog.Bytes)
	if err == nil {
		err = limit.BootLog.CheckItems(bytes.Count(text, []byte("\n")))
	}
	if errors.Is(err, textfile.ErrTooLong) || errors.As(err, new(*limit.Error)) {
		return nil, fmt.Errorf("%w: cut it to one boot, as journalctl -b does", err)
	}
	if err != nil {
		return nil, err
	}
	entries, cut, err := readAll(text)
	if err != nil {
		return nil, err
	}
	overNewYear(entries)
	boots, late := assembled(separate(entries))
	switch {
	case len(boots) == 0 && late != nil:
		boots = []Boot{*late}
	case len(boots) == 0:
		return nil, ErrNoTimes
	case late != nil:
		boots[0].warn("%d lines of the file hold no boot, only what a machine said that was long up: they are left out", len(late.Lines))
	}
	if cutShort {
		boots[len(boots)-1].warn(textfile.CutShort)
	}
	if cut {
		boots[len(boots)-1].warn("the log ends in the middle of a record: what followed is not known")
	}
	return boots, nil
}

// readAll reads the entries of a whole text; cut is true where it ends in a record.
func readAll(text []byte) (entries []entry, cut bool, err error) {
	switch {
	case dmesgDocument.Match(text):
		return readDmesg(text)
	case exported.Match(text):
		return readExport(text)
	}
	lines := strings.Split(string(text), "\n")
	host := monotonicHost(lines)
	entries = make([]entry, 0, len(lines))
	gaps := 0
	for i, line := range lines {
		if isRelative(line) {
			gaps++
		}
		entries = append(entries, read(i+1, line[:min(len(line), mostLine)], host)...)
		if err := limit.BootLog.CheckItems(len(entries)); err != nil {
			return nil, false, err // a line with a hundred stamps is a hundred entries
		}
	}
	for i := range entries {
		if entries[i].stamps.any() {
			gaps-- // a program on a console may print such a line among the kernel's
		}
	}
	if gaps > 0 {
		return nil, false, ErrRelative
	}
	return entries, false, nil
}

// assembled are the boots that have times; late are all lines of machines that were
// long up, nil for none.
func assembled(groups [][]entry) (boots []Boot, late *Boot) {
	for _, group := range groups {
		b, timed := assemble(group)
		switch {
		case timed && b.longUp() && late == nil:
			late = &b
		case timed && b.longUp():
			late.Lines = append(late.Lines, b.Lines...)
		case timed:
			boots = append(boots, b)
		}
	}
	return boots, late
}

// lateStart is when a log's first line is too late for any boot's: the slowest
// firmware counts for no kernel's clock.
const lateStart = 5 * time.Minute

// longUp says whether a ring buffer has lost all of the boot.
func (b *Boot) longUp() bool {
	return (b.Clock == Kernel || b.Clock == Journal) && b.Kernel == "" && len(b.Lines) > 0 && b.Lines[0].At > lateStart && b.up() < 0
}

// monotonicHost is the machine's name in journalctl -o short-monotonic or
// short-delta, empty with --no-hostname, nil for any other log: there, "kernel:"
// follows the name on many lines. systemd writes to the kernel's log, too, where no
// name stands before its own.
func monotonicHost(lines []string) *string {
	count := map[string]int{}
	for _, line := range lines {
		if m := monotonic.FindStringSubmatch(line); m != nil && (m[3] == "kernel" || m[3] == "systemd" && m[2] != "") {
			if count[m[2]]++; count[m[2]] >= 3 {
				return &m[2]
			}
		}
	}
	return nil
}

var (
	version     = regexp.MustCompile(`^Linux version (\S+)`)
	commandLine = regexp.MustCompile(`^(?:Kernel )?[Cc]ommand line: (.*)`)
)

// assemble puts all lines of a boot on one clock. It is false for a boot
// without any time.
func assemble(entries []entry) (Boot, bool) {
	b := Boot{}
	clock, ok := bestClock(entries)
	if !ok {
		return b, false
	}
	b.Clock = clock
	offset := offsets(entries, clock)
	b.Ahead = offset[Host]
	last := firstTime(entries, clock, offset)
	untimed := 0
	for _, e := range entries {
		if e.newBoot || e.text == "" {
			continue
		}
		if p, ok := process(e.text); ok {
			b.Processes = append(b.Processes, p)
			continue
		}
		at, timed := e.on(clock, offset)
		if !timed {
			at = last
			untimed++
		}
		last = at
		b.Lines = append(b.Lines, Line{Number: e.number, At: at, Timed: timed, Source: e.source, Unit: e.unit, Text: e.text})
		if m := version.FindStringSubmatch(e.text); m != nil && b.Kernel == "" && e.source == "" {
			b.Kernel = m[1]
		}
		if m := commandLine.FindStringSubmatch(e.text); m != nil && b.Command == "" {
			b.Command = m[1]
		}
	}
	if clock == Journal {
		slices.SortStableFunc(b.Lines, func(x, y Line) int { return int(x.At - y.At) })
	}
	slices.SortStableFunc(b.Processes, func(x, y Process) int { return int(x.Start - y.Start) })
	b.doubts(untimed)
	b.disorder(entries)
	return b, true
}

// firstTime is the first time of a boot that has one.
func firstTime(entries []entry, clock Clock, offset map[Clock]time.Duration) time.Duration {
	for _, e := range entries {
		if at, timed := e.on(clock, offset); timed {
			return at
		}
	}
	return 0
}

// bestClock is the best clock that a fair part of the stamped lines has.
func bestClock(entries []entry) (Clock, bool) {
	count, stamped := map[Clock]int{}, 0
	for _, e := range entries {
		if e.stamps.any() {
			stamped++
		}
		for c := range e.stamps.all() {
			count[c]++
		}
	}
	for _, c := range clocks {
		if count[c] > 0 && count[c]*20 >= stamped {
			return c, true
		}
	}
	return "", false
}

// offsets are how far each other clock is ahead of the chosen one: the least
// difference on a line that has both, because lines are only ever stamped late.
func offsets(entries []entry, clock Clock) map[Clock]time.Duration {
	out := map[Clock]time.Duration{}
	for _, e := range entries {
		base, ok := e.stamps.get(clock)
		if !ok {
			continue
		}
		for c, t := range e.stamps.all() {
			if have, known := out[c]; !known || t-base < have {
				out[c] = t - base
			}
		}
	}
	if clock == Host || clock == Wall { // they count from somewhere else: the boot's first line is 0
		first := slices.IndexFunc(entries, func(e entry) bool { _, ok := e.stamps.get(clock); return ok })
		begin, _ := entries[first].stamps.get(clock)
		for c := range out {
			out[c] += begin
		}
	}
	return out
}

// on is the entry's time on the chosen clock.
func (e *entry) on(clock Clock, offset map[Clock]time.Duration) (time.Duration, bool) {
	for _, c := range []Clock{clock, Kernel, Journal, Host, Wall} {
		if t, ok := e.stamps.get(c); ok {
			if ahead, known := offset[c]; known {
				return max(t-ahead, 0), true
			}
		}
	}
	return 0, false
}

// doubts warns of what the log cannot tell.
func (b *Boot) doubts(untimed int) {
	first := time.Duration(-1)
	seconds := true
	for _, l := range b.Lines {
		if l.Timed {
			if first < 0 {
				first = l.At
			}
			seconds = seconds && l.At%time.Second == 0
		}
	}
	switch {
	case b.longUp():
		b.warn("it holds no boot, only what a machine said from %.0f s on: for a boot take journalctl -b -k -o short-monotonic, or boot with log_buf_len=4M and take dmesg soon", b.Lines[0].At.Seconds())
	case b.Kernel == "" && first > 0:
		b.warn("the beginning is missing: the first line is of %.3f s; a kernel's ring buffer overwrites its oldest lines, boot with log_buf_len=4M", first.Seconds())
	case b.Kernel == "":
		b.warn("the kernel's first line (\"Linux version\") is missing")
	}
	if b.Clock == Wall {
		b.warn("only the time of day is known, and early lines carry the time when they were collected: take journalctl -o short-monotonic, or printk.time=1")
	}
	if seconds && len(b.Lines) > 10 && b.End() > 0 {
		b.warn("all times are whole seconds")
	}
	if untimed*4 > len(b.Lines) {
		b.warn("%d of %d lines have no time: what took place between stamped lines is not known", untimed, len(b.Lines))
	}
}

// disorder warns of times that cannot be.
func (b *Boot) disorder(entries []entry) {
	var last, deepest time.Duration
	var quoted, line int
	for _, e := range entries {
		if e.quoted {
			quoted++
		}
		at, stamped := e.stamps.get(b.Clock)
		if !stamped {
			continue
		}
		if last-at > deepest {
			deepest, line = last-at, e.number
		}
		last = at
	}
	if quoted > 0 {
		b.warn("%d lines have a stamp far below their neighbours', which is taken for text: of a CPU that came up a moment before, or of an older log that a program prints", quoted)
	}
	if deepest >= 100*time.Millisecond && b.Clock != Journal { // whose lines are put in order
		b.warn("the clock falls by %.3f s at line %d: the clock was set, or two boots are taken for one because neither has its beginning; how long steps took there is not known", deepest.Seconds(), line)
	}
}
