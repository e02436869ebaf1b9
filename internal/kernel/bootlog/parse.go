package bootlog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The largest log and the longest line that are read. A boot writes less than
// a megabyte; a journal of months is cut by journalctl -b.
const (
	mostBytes = 64 << 20
	mostLine  = 64 << 10
)

// Parse reads a log, plain or compressed with gzip, and returns its boots, in
// the file's order. A log without any time is ErrNoTimes, one that is no text
// ErrNotALog.
func Parse(r io.Reader) ([]Boot, error) {
	text, err := open(r)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(text), "\n")
	host := monotonicHost(lines)
	var entries []entry
	for i, line := range lines {
		if relative.MatchString(line) {
			return nil, ErrRelative
		}
		entries = append(entries, read(i+1, line[:min(len(line), mostLine)], host)...)
	}
	var boots []Boot
	for _, group := range separate(entries) {
		if b, ok := assemble(group); ok {
			boots = append(boots, b)
		}
	}
	if len(boots) == 0 {
		return nil, ErrNoTimes
	}
	return boots, nil
}

// open reads all of it, decompressed, and refuses what is no text.
func open(r io.Reader) ([]byte, error) {
	in := bufio.NewReader(r)
	var plain io.Reader = in
	if magic, err := in.Peek(2); err == nil && bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("decompress: %w", err)
		}
		plain = z
	}
	text, err := io.ReadAll(io.LimitReader(plain, mostBytes+1))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) && len(text) > 0: // a compressed file that was cut short: what is there counts
	case err != nil:
		return nil, err
	}
	if len(text) > mostBytes {
		return nil, fmt.Errorf("longer than %d MiB: cut it to one boot, as journalctl -b does", mostBytes>>20)
	}
	head := text[:min(len(text), 4096)]
	if bytes.Count(head, []byte{0}) > len(head)/20 || bytes.HasPrefix(text, []byte("\x7fELF")) {
		return nil, ErrNotALog
	}
	return text, nil
}

// monotonicHost is the machine's name in journalctl -o short-monotonic, empty
// for any other log: there, "kernel:" follows the name on many lines.
func monotonicHost(lines []string) string {
	count := map[string]int{}
	for _, line := range lines {
		if m := monotonic.FindStringSubmatch(line); m != nil && (m[3] == "kernel" || m[3] == "systemd") {
			if count[m[2]]++; count[m[2]] >= 3 {
				return m[2]
			}
		}
	}
	return ""
}

const banner = "Linux version "

// separate cuts a file where a new boot begins: at the kernel's first line, at
// journalctl's separator, where journald's boot id changes, and where the
// kernel's clock starts again.
func separate(entries []entry) [][]entry {
	var boots [][]entry
	begin := 0
	var last time.Duration
	cut := func(i int) {
		if i > begin {
			boots = append(boots, entries[begin:i])
		}
		begin, last = i, 0
	}
	for i, e := range entries {
		at, stamped := e.stamps[Kernel]
		switch {
		case e.newBoot:
			cut(i)
		case i > begin && e.boot != entries[i-1].boot && e.boot != "" && entries[i-1].boot != "":
			cut(i)
		case strings.HasPrefix(e.text, banner) && e.source == "" && anyStamp(entries[begin:i]):
			cut(i)
		case stamped && at < 100*time.Millisecond && last > time.Second:
			cut(i)
		}
		if stamped {
			last = at
		}
	}
	cut(len(entries))
	return boots
}

func anyStamp(entries []entry) bool {
	return slices.ContainsFunc(entries, func(e entry) bool { return len(e.stamps) > 0 })
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
	var last time.Duration
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
	return b, true
}

// bestClock is the best clock that a fair part of the stamped lines has.
func bestClock(entries []entry) (Clock, bool) {
	count, stamped := map[Clock]int{}, 0
	for _, e := range entries {
		if len(e.stamps) > 0 {
			stamped++
		}
		for c := range e.stamps {
			count[c]++
		}
	}
	for _, c := range []Clock{Kernel, Journal, Host, Wall} {
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
		base, ok := e.stamps[clock]
		if !ok {
			continue
		}
		for c, t := range e.stamps {
			if have, known := out[c]; !known || t-base < have {
				out[c] = t - base
			}
		}
	}
	if clock == Host || clock == Wall { // they count from somewhere else: the boot's first line is 0
		first := slices.IndexFunc(entries, func(e entry) bool { _, ok := e.stamps[clock]; return ok })
		for c := range out {
			out[c] += entries[first].stamps[clock]
		}
	}
	return out
}

// on is the entry's time on the chosen clock.
func (e *entry) on(clock Clock, offset map[Clock]time.Duration) (time.Duration, bool) {
	for _, c := range []Clock{clock, Kernel, Journal, Host, Wall} {
		if t, ok := e.stamps[c]; ok {
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
