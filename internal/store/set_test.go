package store

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

// setRun is a run of two cells that are measured in rounds and one that is not; each
// block's records are the Seqs 3b to 3b+2, the last by itself.
func setRun(t *testing.T, root string) *Run {
	t.Helper()
	m := manifest(9)
	m.Cells = []study.Cell{{ID: "host/a", Set: "rounds-1"}, {ID: "runc/a", Set: "rounds-1"}, {ID: "host/b"}}
	r, err := Create(root, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func setRecord(seq int) sample.Record {
	r := sample.Record{Seq: seq, Block: seq / 3, Cell: []string{"host/a", "runc/a", "host/b"}[seq%3], Values: map[string][]float64{"slice-rate": {1}}}
	if seq%3 < 2 {
		device := 4096.0
		r.Slices = &sample.Slices{Round: []int{0, 1}, Count: []float64{5, 6.5}, Own: []int64{10, 11}, CPU: []int64{1, 2},
			From: []int64{0, 20}, To: []int64{12, 33}, Stalled: []int{1}, Bytes: 8192, Device: &device, Said: []string{"check=ff"}}
	}
	return r
}

func TestRecordsOfASetAreKeptTogether(t *testing.T) {
	r := setRun(t, t.TempDir())
	if err := r.Append(setRecord(0), setRecord(1)); err != nil {
		t.Fatal(err)
	}
	if err := r.Append(setRecord(3), setRecord(1)); err == nil {
		t.Error("a record that is there already was taken with another")
	}
	if err := r.Append(setRecord(3), setRecord(3)); err == nil {
		t.Error("one record was taken twice")
	}
	if err := r.Append(setRecord(3), setRecord(4)); err != nil {
		t.Errorf("a refused set left something behind: %v", err)
	}
	want := []sample.Record{setRecord(0), setRecord(1), setRecord(3), setRecord(4)}
	if got := all(t, r); !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, want %+v", got, want)
	}
}

// A kill may cut the records of a block anywhere: what is whole of an incomplete set is
// removed with the rest, and nothing else is.
func TestResumeRemovesAnIncompleteSet(t *testing.T) {
	root := t.TempDir()
	r := setRun(t, root)
	if err := r.Append(setRecord(0), setRecord(1)); err != nil {
		t.Fatal(err)
	}
	if err := r.Append(setRecord(2)); err != nil {
		t.Fatal(err)
	}
	if err := r.Append(setRecord(3), setRecord(4)); err != nil {
		t.Fatal(err)
	}
	r.Close()
	file := filepath.Join(r.Dir(), recordsFile)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(whole), "\n")
	first, second := len(strings.Join(lines[:3], "")), len(strings.Join(lines[:4], ""))
	for length, want := range map[int]int{len(whole): 5, len(whole) - 1: 3, second + 7: 3, second: 3, first + 7: 3, first: 3} {
		if err := os.WriteFile(file, whole[:length], 0o644); err != nil {
			t.Fatal(err)
		}
		again, err := Resume(r.Dir())
		if err != nil {
			t.Fatal(err)
		}
		if got := len(all(t, again)); got != want || len(again.Done()) != want {
			t.Errorf("of %d bytes %d records are left, %d done, want %d", length, got, len(again.Done()), want)
		}
		if notes := again.Notes(); (len(notes) == 0) != (length == len(whole) || length == first) {
			t.Errorf("of %d bytes: notes %q", length, notes)
		}
		if want == 3 {
			if err := again.Append(setRecord(3), setRecord(4)); err != nil {
				t.Errorf("of %d bytes: the block cannot be done again: %v", length, err)
			}
		}
		again.Close()
	}
}
