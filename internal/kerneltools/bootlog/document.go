package bootlog

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/limit"
)

// Two logs are no lists of lines: what dmesg --json prints is one document, and the
// records of journalctl -o export have a line for each field.
var (
	dmesgDocument = regexp.MustCompile(`^\s*\{\s*"dmesg"\s*:\s*\[`)
	exported      = regexp.MustCompile(`^__CURSOR=`)
)

// readDmesg reads dmesg --json (util-linux 2.38 and later). cut is true where the
// document ends before its end.
func readDmesg(text []byte) (entries []entry, cut bool, err error) {
	start := dmesgDocument.FindIndex(text)[1]
	decode := json.NewDecoder(bytes.NewReader(text[start-1:])) // from the list on
	if _, err := decode.Token(); err != nil {
		return nil, false, err
	}
	number, counted := 1+bytes.Count(text[:start], []byte("\n")), start
	for decode.More() {
		var one struct {
			Time json.Number `json:"time"`
			Text string      `json:"msg"`
		}
		if err := decode.Decode(&one); err != nil {
			return entries, true, nil
		}
		end := start - 1 + int(decode.InputOffset())
		for line := range strings.SplitSeq(one.Text, "\n") {
			e := entry{number: number, text: strings.TrimRight(escape.ReplaceAllString(line[:min(len(line), mostLine)], ""), " \t")}
			if at, err := one.Time.Float64(); err == nil && at >= 0 && at < float64(leapYear/time.Second) {
				e.stamps.set(Kernel, time.Duration(at*1e6+0.5)*time.Microsecond)
			}
			e.writer()
			entries = append(entries, e)
			if err := limit.BootLog.CheckItems(len(entries)); err != nil {
				return nil, false, err
			}
		}
		number, counted = number+bytes.Count(text[counted:end], []byte("\n")), end
	}
	_, err = decode.Token() // the list's end
	return entries, err != nil, nil
}

// readExport reads journalctl -o export (systemd, JOURNAL_EXPORT_FORMATS.md): a
// field is NAME=TEXT, or NAME, a length in eight bytes, and that many bytes.
func readExport(text []byte) (entries []entry, cut bool, err error) {
	number := 1
	record := map[string]string{}
	add := func(at int) error {
		j := journalEntry{
			Message: record["MESSAGE"], Monotonic: record["__MONOTONIC_TIMESTAMP"], Source: record["_SOURCE_MONOTONIC_TIMESTAMP"], Boot: record["_BOOT_ID"],
			Transport: record["_TRANSPORT"], Identifier: record["SYSLOG_IDENTIFIER"], Unit: record["UNIT"],
		}
		if e, ok := j.entry(at); ok {
			entries = append(entries, e)
		}
		clear(record)
		return limit.BootLog.CheckItems(len(entries))
	}
	first := number
	for len(text) > 0 {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		name, value, simple := strings.Cut(string(line), "=")
		switch {
		case len(line) == 0: // between two records
			if err := add(first); err != nil {
				return nil, false, err
			}
			first = number + 1
		case !whole:
			return entries, true, nil
		case simple:
			record[name] = value
		default:
			if len(rest) < 8 {
				return entries, true, nil
			}
			length := binary.LittleEndian.Uint64(rest)
			if rest = rest[8:]; length >= uint64(len(rest)) {
				return entries, true, nil
			}
			record[name] = string(rest[:min(length, mostLine)])
			number += bytes.Count(rest[:length], []byte("\n"))
			rest = rest[length+1:]
		}
		text = rest
		number++
	}
	if len(record) > 0 {
		err = add(first)
	}
	return entries, false, err
}
