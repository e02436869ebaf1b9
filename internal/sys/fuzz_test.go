package sys

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// FuzzSettings: no list of settings, of whatever boot but this one, makes a sweep panic,
// blocks it, or stays.
func FuzzSettings(f *testing.F) {
	f.Add([]byte(`{"boot":"00000000-old-boot","values":{"net.ipv4.neigh.default.gc_thresh1":"128"}}`))
	f.Add([]byte(`{"boot":"x","values":{"../../x":"1"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(t.TempDir(), "settings")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := RestoreSettings(file); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("it is still there: %v", err)
		}
	})
}
