package store

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/limit"
)

// bomb is a text of n bytes: head, and then entry again and again.
func bomb(head, entry string, n int64) []byte {
	return append([]byte(head), bytes.Repeat([]byte(entry), int((n-int64(len(head)))/int64(len(entry))))...)
}

// TestManifestBombs: a manifest of the full length whose decoding would take gigabytes is
// refused for a fraction of that.
func TestManifestBombs(t *testing.T) {
	for what, text := range map[string][]byte{
		"cells":    bomb(`{"schema":1,"cells":[{}`, `,{}`, limit.RunManifest.Bytes),
		"metrics":  bomb(`{"schema":1,"metrics":{"a":[{}`, `,{}`, limit.RunManifest.Bytes),
		"targets":  bomb(`{"schema":1,"study":{"targets":[""`, `,""`, limit.RunManifest.Bytes),
		"depth":    bomb(`{"schema":1,"x":`, `[`, limit.RunManifest.Bytes),
		"pilots":   bomb(`{"schema":1,"pilot":{"a":{}`, `,"a":{}`, limit.RunManifest.Bytes),
		"no field": bomb(`{"schema":1,"x":[1`, `,1`, limit.RunManifest.Bytes),
	} {
		var err error
		if over := limit.RunManifest.CheckAlloc(func() { _, err = decodeManifest("dir", text) }); over != nil {
			t.Errorf("%s: %v", what, over)
		}
		if !errors.As(err, new(*limit.Error)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// As many cells as are let through are decoded, and refused for what they are.
	text := append(bomb(`{"schema":1,"cells":[{}`, `,{}`, 3*int64(limit.RunManifest.Items)), "]}"...)
	var err error
	if over := limit.RunManifest.CheckAlloc(func() { _, err = decodeManifest("dir", text) }); over != nil {
		t.Error(over)
	}
	if err == nil || errors.As(err, new(*limit.Error)) || !strings.Contains(err.Error(), "cells") {
		t.Errorf("all cells: %v", err)
	}
}

// TestRecordBombs: the same of one record.
func TestRecordBombs(t *testing.T) {
	for what, text := range map[string][]byte{
		"values":   bomb(`{"seq":0,"values":{"a":[1`, `,1`, limit.RunRecord.Bytes),
		"metrics":  bomb(`{"seq":0,"values":{"a":[]`, `,"b":[]`, limit.RunRecord.Bytes),
		"warnings": bomb(`{"seq":0,"warnings":[""`, `,""`, limit.RunRecord.Bytes),
	} {
		var err error
		if over := limit.RunRecord.CheckAlloc(func() { _, err = other(text) }); over != nil {
			t.Errorf("%s: %v", what, over)
		}
		if !errors.As(err, new(*limit.Error)) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestPackedBombs: a side file of some KiB that unpacks to more than its limit.
func TestPackedBombs(t *testing.T) {
	r := create(t, t.TempDir(), 1)
	var packed bytes.Buffer
	to := gzip.NewWriter(&packed)
	if _, err := io.CopyN(to, zeros{}, limit.RunSide.Bytes+1); err != nil || to.Close() != nil {
		t.Fatal(err)
	}
	for _, name := range []string{logFile("0"), profileFile(0)} {
		file := filepath.Join(r.Dir(), name)
		must(t, os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, packed.Bytes(), 0o600))
	}
	if _, _, err := r.Log(0); !errors.As(err, new(*limit.Error)) || !errors.Is(err, ErrCorrupt) {
		t.Errorf("a log: %v", err)
	}
	if over := (limit.Limit{Input: "a bomb", Alloc: 16 << 20}).CheckAlloc(func() {
		if _, _, err := r.Profile(0); !errors.Is(err, ErrCorrupt) {
			t.Errorf("a profile: %v", err)
		}
		if v, err := r.Verify(); err != nil || len(v.Damaged) != 2 {
			t.Errorf("%v, %v", v.Damaged, err)
		}
	}); over != nil {
		t.Error(over)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
