package sys

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
)

// A process that waits for a lock is told so once. It can give up, and it gets the lock
// when the holder releases it.
func TestLockFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	first, err := LockFile(t.Context(), file, func() { t.Error("nobody has the lock") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := LockFile(ctx, file, cancel); !errors.Is(err, context.Canceled) {
		t.Fatalf("a second holder: %v", err)
	}
	told := 0
	second, err := LockFile(t.Context(), file, func() { told++; first.Close() })
	if err != nil || told != 1 {
		t.Fatalf("after its release: %v, told %d times", err, told)
	}
	second.Close()
	if _, err := LockFile(t.Context(), t.TempDir(), nil); err == nil {
		t.Error("a directory was locked")
	}
}
