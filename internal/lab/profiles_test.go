package lab

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tarelab/tare/internal/profile"
)

// The directory of a run that was copied from somebody else may have links in it.
func TestProfilesAreWrittenThroughNoLink(t *testing.T) {
	stem, victim := filepath.Join(t.TempDir(), "cell"), filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{".pb.gz", ".folded"} {
		if err := os.Symlink(victim, stem+suffix); err != nil {
			t.Fatal(err)
		}
	}
	files, err := writeProfile(stem, profile.Profile{Stacks: [][]string{{"a"}}})
	if err != nil || len(files) != 2 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "kept" {
		t.Errorf("what they linked to is now %q, %v", text, err)
	}
}
