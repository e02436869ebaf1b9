package sys

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// KSM has done its work when it has looked at all memory often enough; one that
// looks at nothing is told when the time is over.
func TestAwaitScans(t *testing.T) {
	file := filepath.Join(t.TempDir(), "full_scans")
	write := func(n int) {
		next := file + ".new"
		if err := os.WriteFile(next, []byte(strconv.Itoa(n)+"\n"), 0o600); err != nil {
			t.Error(err)
		}
		if err := os.Rename(next, file); err != nil {
			t.Error(err)
		}
	}
	write(7)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := awaitScans(ctx, file); err == nil || !strings.Contains(err.Error(), "looked at all pages 0 times of 3") {
		t.Errorf("it stood still: %v", err)
	}
	go func() {
		for n := 8; n <= 7+ksmScans; n++ {
			time.Sleep(70 * time.Millisecond)
			write(n)
		}
	}()
	if err := awaitScans(t.Context(), file); err != nil {
		t.Error(err)
	}
	if n, err := ReadNumber(file); err != nil || n < 7+ksmScans {
		t.Errorf("it came back after scan %v, %v", n, err)
	}
	if err := awaitScans(t.Context(), file+".none"); err == nil {
		t.Error("a kernel without KSM was waited for")
	}
}

// A setting below /sys is named by its file.
func TestSettingsByFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "run")
	if err := os.WriteFile(file, []byte("0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func(before []string) func() { return func() { settable = before } }(settable))
	settable = append(slices.Clone(settable), file)
	restore, err := Settings{filepath.Join(dir, "settings")}.Set(map[string]string{file: "1"})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text)[:1] != "1" {
		t.Errorf("it is %q, %v", text, err)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text)[:1] != "0" {
		t.Errorf("put back is %q, %v", text, err)
	}
}

// What could not be put back stays in the file, for a later try or a sweep.
func TestSettingsThatCannotBePutBack(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "run")
	t.Cleanup(func(before []string) func() { return func() { settable = before } }(settable))
	settable = append(slices.Clone(settable), file)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("0\n")
	s := Settings{filepath.Join(dir, "settings")}
	restore, err := s.Set(map[string]string{file: "1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o700)); err != nil { // it cannot be written
		t.Fatal(err)
	}
	if err := restore(); err == nil {
		t.Error("it was put back")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	write("1\n")
	if restore, err = s.Set(map[string]string{file: "2"}); err != nil {
		t.Fatal(err)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text)[:1] != "0" {
		t.Errorf("put back is %q, %v", text, err)
	}
}

// A setting that nobody may write was never changed: nothing stays for a sweep.
func TestSettingsThatCannotBeWritten(t *testing.T) {
	const fixed = "/proc/sys/kernel/random/poolsize"
	t.Cleanup(func(before []string) func() { return func() { settable = before } }(settable))
	settable = append(slices.Clone(settable), fixed)
	s := Settings{filepath.Join(t.TempDir(), "settings")}
	if _, err := s.Set(map[string]string{fixed: "1"}); err == nil {
		t.Error("it was written")
	}
	if _, err := os.Stat(s.File); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file stays: %v", err)
	}
}
