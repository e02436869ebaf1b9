package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/fake"
)

// remedy is a command that is longer than a table's column, and commands the terminal.
var remedy = "curl -fL https://example.org/" + strings.Repeat("long/", 40) + "program | tar x\a"

// untidy is a driver that cannot clean up, of a runtime that writes to the terminal.
type untidy struct{ *fake.Driver }

func (untidy) Check(context.Context) (driver.Facts, error) {
	return driver.Facts{Version: "1\x1b[2J"}, &driver.CannotError{Target: "untidy", Lacks: "\x1b]0;owned\a", Remedy: remedy}
}

func (untidy) Setup(context.Context, driver.Spec) error { return nil }

func (untidy) Teardown() error { return errors.New("the lid \x1b[1mjams") }

// What was found is shown although the clean-up failed, and as text alone.
func TestCheckIsShownBeforeTheCleanUpFails(t *testing.T) {
	state := t.TempDir()
	for _, format := range []string{"", "--json"} {
		var out, diagnostics bytes.Buffer
		code := Main(Env{Args: append([]string{"check", "--on", "untidy"}, strings.Fields(format)...), Stdout: &out, Stderr: &diagnostics, Version: "test",
			Drivers: func(driver.Lab) []driver.Driver { return []driver.Driver{untidy{fake.New("untidy", nil)}} },
			Getenv:  func(name string) string { return map[string]string{"TARE_STATE": state}[name] }})
		if code != exitLaboratory || !strings.Contains(diagnostics.String(), `the lid \u001b[1mjams`) {
			t.Errorf("%s: exit code %d, said %q", format, code, diagnostics.String())
		}
		if !strings.Contains(out.String(), `1\u001b[2J`) || !strings.Contains(out.String(), `\u001b]0;owned\u0007`) {
			t.Errorf("%s: printed\n%s", format, out.String())
		}
		if plain := strings.ReplaceAll(remedy, "\a", `\u0007`); !strings.Contains(out.String(), plain) {
			t.Errorf("%s: the command cannot be copied:\n%s", format, out.String())
		}
		if strings.ContainsAny(out.String()+diagnostics.String(), "\x1b\a") {
			t.Errorf("%s: the terminal is commanded: %q %q", format, out.String(), diagnostics.String())
		}
	}
}

// A table tells a reason once, and of a digest what tells it apart.
func TestCheckNotes(t *testing.T) {
	var r checkedTarget
	r.Works = true
	r.Facts.Notes = map[string]string{"accel": "tcg", "kernel-digest": "sha256:b2b9d602a316b2dbd4870911", driver.NoteNoKVM: "it hangs"}
	if got, want := note(r, map[string]string{"it hangs": "see KVM"}), "accel tcg, kernel-digest sha256:b2b9d602a316, no-kvm see KVM"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := note(r, nil); !strings.HasSuffix(got, "no-kvm it hangs") {
		t.Errorf("without a fact: %q", got)
	}
}
