package sys

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A copy has the same bytes and takes no more room; its holes are holes.
func TestCopySparse(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	f, err := os.Create(from)
	if err != nil {
		t.Fatal(err)
	}
	const size, at = 64 << 20, 20 << 20
	data := bytes.Repeat([]byte("tare"), 300_000)
	_, err = f.WriteAt(data, at)
	if err := errors.Join(err, f.Truncate(size), f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := CopySparse(t.Context(), to, from); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]byte, size)
	copy(want[at:], data)
	if !bytes.Equal(got, want) {
		t.Error("the copy has other bytes")
	}
	var stat unix.Stat_t
	if err := unix.Stat(to, &stat); err != nil || stat.Blocks*512 > 2*int64(len(data)) {
		t.Errorf("the copy takes %d bytes of the disk, and %d are written (%v)", stat.Blocks*512, len(data), err)
	}
	if err := CopySparse(t.Context(), to, from); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file that is there was overwritten: %v", err)
	}
}

func TestCopySparseLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := os.WriteFile(from, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := CopySparse(ended, to, from); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	} else if _, left := os.Lstat(to); err != nil && !errors.Is(left, fs.ErrNotExist) {
		t.Errorf("a copy that failed left a file: %v", left)
	}
	f, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Fits(f.Name(), 1<<60); err == nil {
		t.Error("a copy of 2^60 bytes was not refused")
	}
}
