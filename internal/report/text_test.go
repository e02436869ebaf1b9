package report

import "testing"

func TestCleanDisarmsControlCharacters(t *testing.T) {
	if got, want := clean("a\x1b[31m\nb\u202ec\x00"), `a\u001b[31m b\u202ec\u0000`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
