package vmm

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// An initramfs ends with its last page: a firmware that writes tables over that one
// writes over zeros, or over nothing.
func TestCopyInPages(t *testing.T) {
	for size, want := range map[int]int{0: 0, 1: 4096, 4096: 4096, 3304828: 807 * 4096} {
		dir := t.TempDir()
		from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
		text := bytes.Repeat([]byte{'x'}, size)
		if err := os.WriteFile(from, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := copyInPages(to, from); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(to)
		if err != nil || len(got) != want || !bytes.HasPrefix(got, text) || len(bytes.Trim(got[size:], "\x00")) > 0 {
			t.Errorf("%d bytes became %d, want %d: %v", size, len(got), want, err)
		}
		if err := copyInPages(to, from); !os.IsExist(err) {
			t.Errorf("over a file that is there: %v", err)
		}
	}
}
