package store

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
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

// TestManyDamagedLines: a file of newlines, of which a few KiB of gzip hold many MiB, has
// its first damaged records named and the others counted.
func TestManyDamagedLines(t *testing.T) {
	const lines = 8 << 20
	for what, line := range map[string]string{"empty": "\n", "an empty object": "{}\n"} {
		r := create(t, t.TempDir(), 1)
		r.manifest.Sums = "" // without them each line is decoded
		must(t, os.WriteFile(filepath.Join(r.Dir(), recordsFile), bytes.Repeat([]byte(line), lines), 0o600))
		if over := (limit.Limit{Input: "a bomb", Alloc: 512 << 20}).CheckAlloc(func() {
			v, err := r.Verify()
			if err != nil || len(v.Damaged) != mostDamaged+1 {
				t.Fatalf("%s: %d damaged, %v", what, len(v.Damaged), err)
			}
			for _, d := range v.Damaged {
				if !errors.Is(d, ErrCorrupt) {
					t.Errorf("%s: %v", what, d)
				}
			}
			if last := v.Damaged[mostDamaged].Error(); !strings.Contains(last, fmt.Sprint(lines-mostDamaged)) {
				t.Errorf("%s: %s", what, last)
			}
		}); over != nil {
			t.Errorf("%s: %v", what, over)
		}
	}
}

// TestManyDamagedFiles: side files are counted with the records.
func TestManyDamagedFiles(t *testing.T) {
	r := create(t, t.TempDir(), 1)
	must(t, os.Mkdir(filepath.Join(r.Dir(), "logs"), 0o700))
	for i := range mostDamaged + 5 {
		must(t, os.WriteFile(filepath.Join(r.Dir(), logFile(fmt.Sprint(i))), nil, 0o600))
	}
	if v, err := r.Verify(); err != nil || len(v.Damaged) != mostDamaged+1 || !strings.Contains(v.Damaged[mostDamaged].Error(), "5 more") {
		t.Errorf("%d damaged, %v", len(v.Damaged), err)
	}
}

// TestStretchesAreBounded: whatever the lines are, the stretches are all of them in order,
// and none has many.
func TestStretchesAreBounded(t *testing.T) {
	var text []byte
	for _, part := range []string{strings.Repeat("\n", 3*batchBytes), strings.Repeat("x", 2*batchBytes) + "\n",
		strings.Repeat("\n", batchLines), strings.Repeat("x\n", batchBytes), "the end"} {
		text = append(text, part...)
	}
	var got []byte
	most := 0
	err := batches(bytes.NewReader(text), false, func(b *batch) error {
		got, most = append(got, b.text...), max(most, len(b.lines))
		return nil
	})
	if want := text[:bytes.LastIndexByte(text, '\n')+1]; err != nil || !slices.Equal(got, want) {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
	if most > 64<<10 {
		t.Errorf("a stretch has %d lines", most)
	}
}

// TestSparseFiles: a hole takes nothing of the disk, and reading it takes for ever.
func TestSparseFiles(t *testing.T) {
	root := t.TempDir()
	r := create(t, root, 1)
	must(t, os.Truncate(filepath.Join(r.Dir(), recordsFile), limit.RunRecord.Bytes+1<<20))
	if runs, err := List(root); err != nil || len(runs) != 1 || !strings.Contains(runs[0].Problem, ErrCorrupt.Error()) {
		t.Errorf("records: %+v, %v", runs, err)
	}
	r = create(t, t.TempDir(), 1)
	log := filepath.Join(r.Dir(), logFile("0"))
	must(t, os.Mkdir(filepath.Dir(log), 0o700), os.WriteFile(log, nil, 0o600), os.Truncate(log, limit.RunArchive.Bytes+1))
	if err := r.Export(io.Discard); !errors.As(err, new(*limit.Error)) {
		t.Errorf("export of a log: %v", err)
	}
	if _, err := r.exportFile(tar.NewWriter(io.Discard), manifestFile, limit.RunArchive.Bytes); !errors.As(err, new(*limit.Error)) {
		t.Errorf("export of a file behind others: %v", err)
	}
}
