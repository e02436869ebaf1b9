package cli

import (
	"bytes"
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
