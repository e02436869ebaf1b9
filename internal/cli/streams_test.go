package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver/all"
)

// A reader that has gone ends a verb quietly, with the code that a shell gives.
func TestReaderHasGone(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	read.Close()
	for args, code := range map[string]int{"studies": exitReaderGone, "version": exitReaderGone, "studies no-such": exitUsage} {
		var diagnostics bytes.Buffer
		got := Main(Env{Args: strings.Fields(args), Stdout: write, Stderr: &diagnostics, Drivers: all.Drivers, Version: "test",
			Getenv: func(string) string { return "/nonexistent" }})
		if got != code || (diagnostics.Len() == 0) != (code == exitReaderGone) {
			t.Errorf("%s: exit code %d, said %q", args, got, diagnostics.String())
		}
	}
	// Progress that nobody reads stops nothing.
	var out bytes.Buffer
	if got := Main(Env{Args: []string{"version"}, Stdout: &out, Stderr: write, Drivers: all.Drivers, Version: "test",
		Getenv: func(string) string { return "/nonexistent" }}); got != exitOK || out.Len() == 0 {
		t.Errorf("exit code %d, printed %q", got, out.String())
	}
}

// JSON commands the terminal as little as text does, and its values stay.
func TestJSONIsVisible(t *testing.T) {
	const evil = "\x1b[31m \x7f \u009b31m \u202e \u2028 \u2029 \xff é"
	var one, lines bytes.Buffer
	env := Env{Stdout: &one}
	if err := errors.Join(env.printJSON([]string{evil}), writeLines(&lines, []string{evil})); err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := json.Unmarshal(one.Bytes(), &got); err != nil || len(got) != 1 || got[0] != strings.ToValidUTF8(evil, "\ufffd") {
		t.Errorf("got %q, %v", got, err)
	}
	for _, out := range []string{one.String(), lines.String()} {
		if strings.ContainsAny(out, "\x1b\x7f\u009b\u202e\u2028\u2029") || !strings.Contains(out, "é") {
			t.Errorf("printed %q", out)
		}
	}
}

// Escape sequences are for terminals that say they take them.
func TestDraws(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	for kind, want := range map[string]bool{"xterm-256color": true, "dumb": false, "": false} {
		env := &Env{Stdout: &output{Writer: terminal}, Stderr: visible{terminal}, Getenv: func(name string) string { return map[string]string{"TERM": kind}[name] }}
		if env.draws(env.Stdout) != want || env.textOptions().Color != want || (laboratory{env}).Live() != want {
			t.Errorf("TERM=%s draws is %v, want %v", kind, !want, want)
		}
		if env.draws(new(bytes.Buffer)) {
			t.Errorf("TERM=%s draws into what is no terminal", kind)
		}
	}
}

func TestDiagnosticsAreText(t *testing.T) {
	var out bytes.Buffer
	said := "block 1\n\tdies: \x1b[31mred\x1b[0m\r\u202eevil\n"
	if n, err := (visible{&out}).Write([]byte(said)); n != len(said) || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if got, want := out.String(), "block 1\n\tdies: \\u001b[31mred\\u001b[0m\\u000d\\u202eevil\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
