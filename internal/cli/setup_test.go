package cli

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// An answer that cannot be read is told apart from a no.
func TestSaidYes(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, " Yes \n": true, "y": true, "n\n": false, "\n": false, "": false, "yesterday\n": false} {
		if err := saidYes(strings.NewReader(answer)); (err == nil) != want {
			t.Errorf("%q: %v", answer, err)
		}
	}
	broken := errors.New("the terminal is gone")
	if err := saidYes(io.MultiReader(strings.NewReader("y"), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("a read that fails: %v", err)
	}
}
