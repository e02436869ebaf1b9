package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver/all"
)

// A kill in the midst of a write left a line that every later call refused, and a state
// directory that did not exist yet was an error.
func TestHistoryIsMended(t *testing.T) {
	state := filepath.Join(t.TempDir(), "new", "state")
	file := filepath.Join(state, "history.jsonl")
	run := func(want int, out, diagnostics string, args ...string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		code := Main(Env{Args: append([]string{"--state", state, "history"}, args...), Stdout: &stdout, Stderr: &stderr, Drivers: all.Drivers, Version: "test",
			Getenv: func(name string) string { return map[string]string{"HOME": t.TempDir()}[name] }})
		if code != want || !strings.Contains(stdout.String(), out) || !strings.Contains(stderr.String(), diagnostics) || (diagnostics == "") != (stderr.Len() == 0) {
			t.Errorf("%q: exit code %d, want %d with %q and %q:\n%s%s", args, code, want, out, diagnostics, stdout.String(), stderr.String())
		}
	}
	read := func() []byte {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	run(exitOK, "2 of 4 ratios added", "", "add", plantedRun, plantedRun) // the same run twice
	whole := read()
	if err := os.Truncate(file, int64(len(whole)-9)); err != nil {
		t.Fatal(err)
	}
	run(exitOK, "work/native ", "the last line was cut short", "show")
	run(exitOK, "Changes: 0", "is left out", "check")
	run(exitOK, "1 of 2 ratios added", "is removed", "add", plantedRun)
	if !bytes.Equal(read(), whole) {
		t.Errorf("mended, it is %q, want %q", read(), whole)
	}
	run(exitOK, "0 of 2 ratios added", "", "add", plantedRun)

	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("ssh-ed25519 AAAA"), 0o600); err != nil {
		t.Fatal(err)
	}
	file = key
	run(exitLaboratory, "", "line 1", "--file", key, "add", plantedRun)
	if string(read()) != "ssh-ed25519 AAAA" {
		t.Errorf("another kind of file was cut to %q", read())
	}
}
