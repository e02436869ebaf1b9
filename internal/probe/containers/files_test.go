package containers

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// What is kept open is read anew each time, whatever its length, and is closed when
// a round has done without it.
func TestFilesAreReadAnew(t *testing.T) {
	name := filepath.Join(t.TempDir(), "counter")
	f := newFiles()
	for _, length := range []int{1, 3 * page, 0, page / 2, page, 2} {
		want := bytes.Repeat([]byte{'7'}, length)
		if err := os.WriteFile(name, want, 0o600); err != nil { // into the same file
			t.Fatal(err)
		}
		kept, err := f.read(name)
		if err != nil || !bytes.Equal(kept, want) {
			t.Errorf("kept: %d bytes of %d, %v", len(kept), length, err)
		}
		once, err := f.once(name)
		if err != nil || !bytes.Equal(once, want) {
			t.Errorf("once: %d bytes of %d, %v", len(once), length, err)
		}
		if f.next(); len(f.open) != 1 {
			t.Errorf("%d files are kept, want the one", len(f.open))
		}
	}
	if f.next(); len(f.open) != 0 {
		t.Errorf("%d files are kept that nobody reads", len(f.open))
	}
	if _, err := f.read(name + "?"); !os.IsNotExist(err) || len(f.open) != 0 {
		t.Errorf("a file that is not there: %v, %d kept", err, len(f.open))
	}
	f.most = 0
	if _, err := f.read(name); err != nil || len(f.open) != 0 {
		t.Errorf("beyond the limit: %v, %d kept", err, len(f.open))
	}
}
