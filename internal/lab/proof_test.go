package lab

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarelab/tare/internal/sys"
)

// FuzzProof: whatever lies in a session's place as its proof, a sweep takes nothing for a
// dead session but what names its own directory by name and inode.
func FuzzProof(f *testing.F) {
	self, err := sys.Self()
	if err != nil {
		f.Fatal(err)
	}
	self.Start++ // ended
	text, err := json.Marshal(proof{Name: "s01234567", Process: self, Left: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"name":"s01234567","inode":-1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := filepath.Join(t.TempDir(), "s01234567")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, proofFile), data, 0o600); err != nil {
			t.Fatal(err)
		}
		s := &session{name: "s01234567", dir: dir}
		if err := s.seize(); err == nil {
			t.Errorf("%s was taken for the proof of %s", data, dir)
		}
		if _, err := os.Lstat(filepath.Join(dir, proofFile)); err != nil {
			t.Error(err)
		}
	})
}
