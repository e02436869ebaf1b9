package steplog

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "search.log")
	open := func(of string) (*Log[int], error) { return Open[int](name, of, "source") }
	l, err := open("this")
	if err != nil {
		t.Fatal(err)
	}
	var busy *BusyError
	if _, err := open("this"); !errors.As(err, &busy) {
		t.Errorf("while it is open: %v", err)
	}
	for step := range 3 {
		if err := l.Keep(step); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	// Cut at any byte, as by a kill: the steps whose lines are whole are there.
	for cut := range len(whole) + 1 {
		if err := os.WriteFile(name, whole[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		l, err := open("this")
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if !slices.Equal(l.Steps, []int{0, 1, 2}[:len(l.Steps)]) || cut == len(whole) && len(l.Steps) != 3 {
			t.Errorf("cut at %d: steps %v", cut, l.Steps)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var other *OtherError
	if _, err := open("another"); !errors.As(err, &other) {
		t.Errorf("of another search: %v", err)
	}
	if err := os.WriteFile(name, []byte("{\"search\":\"this\"}\nnot a step\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := open("this"); err == nil {
		t.Error("a damaged log is taken")
	}
}
