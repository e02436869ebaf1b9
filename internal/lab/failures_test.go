package lab

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A device, a FIFO or a link that the user names for output is written to, and stays what
// it is.
func TestWriteOutputKeepsDevices(t *testing.T) {
	dir := t.TempDir()
	link, file, toFile, toNew := filepath.Join(dir, "null"), filepath.Join(dir, "file"), filepath.Join(dir, "to-file"), filepath.Join(dir, "to-new")
	target, fresh := filepath.Join(dir, "target"), filepath.Join(dir, "new")
	err := errors.Join(os.Symlink(os.DevNull, link), os.Symlink(target, toFile), os.Symlink(fresh, toNew))
	for _, path := range []string{file, target} {
		err = errors.Join(err, os.WriteFile(path, []byte("what was there before"), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	write := func(w io.Writer) error {
		_, err := io.WriteString(w, "after")
		return err
	}
	for _, path := range []string{link, file, toFile, toNew} {
		if err := WriteOutput(path, write); err != nil {
			t.Error(err)
		}
	}
	for _, path := range []string{link, toFile, toNew} {
		if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeSymlink {
			t.Errorf("the link %s is %v, %v", path, info, err)
		}
	}
	for _, path := range []string{file, target, fresh} {
		if text, err := os.ReadFile(path); err != nil || string(text) != "after" {
			t.Errorf("%s holds %q, %v", path, text, err)
		}
	}
	if err := WriteOutput("/dev/full", write); err == nil {
		t.Error("a device that is full took it")
	}
}
