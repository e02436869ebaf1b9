package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tarelab/tare/internal/study"
)

// What is no study's file is refused at once, however long it would be read or waited
// for.
func TestNoStudysFile(t *testing.T) {
	dir := t.TempDir()
	pipe, large := filepath.Join(dir, "pipe"), filepath.Join(dir, "large.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 1<<33); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"/dev/zero": "is not a regular file", pipe: "is not a regular file", dir: "is not a regular file",
		large: "more than 1048576 bytes", filepath.Join(dir, "none.yaml"): "no such file",
	} {
		if _, err := new(Env).loadStudy(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
	well := filepath.Join(dir, "well.yaml")
	if err := os.WriteFile(well, []byte("targets: [host]\nworkloads: [{kind: start}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if st, err := new(Env).loadStudy(well); err != nil || st.ID != "well" || st.Control != study.DefaultControl {
		t.Errorf("%+v, %v", st, err)
	}
}
