package vmm

import (
	"io"
	"strings"
	"testing"
)

// What a VMM says is kept whole, or its first and its last, in bounded memory.
func TestWords(t *testing.T) {
	var s words
	for _, part := range []string{"warning: no KVM\n", "", "ended\n"} {
		if n, err := io.WriteString(&s, part); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := s.text(); got != "warning: no KVM; ended" {
		t.Errorf("%q", got)
	}
	for range 100 {
		if _, err := io.WriteString(&s, strings.Repeat("x", 10_000)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(&s, "aborted"); err != nil {
		t.Fatal(err)
	}
	got := s.text()
	if !strings.HasPrefix(got, "warning: no KVM; ended; x") || !strings.HasSuffix(got, "xaborted") || !strings.Contains(got, "[996957 bytes left out]") {
		t.Errorf("%.40q ... %q", got, got[len(got)-40:])
	}
	if kept := cap(s.first) + cap(s.last); kept > 32<<10 {
		t.Errorf("%d bytes are kept", kept)
	}
}
