package lab

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// What a user names and is no regular file stays what it is: a device, a FIFO, or a link
// to one, as /dev/stdout is.
func TestWriteOutputKeepsDevices(t *testing.T) {
	dir := t.TempDir()
	link, file := filepath.Join(dir, "null"), filepath.Join(dir, "file")
	if err := errors.Join(os.Symlink(os.DevNull, link), os.WriteFile(file, []byte("before"), 0o600)); err != nil {
		t.Fatal(err)
	}
	write := func(w io.Writer) error {
		_, err := io.WriteString(w, "after")
		return err
	}
	for _, path := range []string{link, file} {
		if err := WriteOutput(path, write); err != nil {
			t.Error(err)
		}
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("the link to a device is %v, %v", info, err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "after" {
		t.Errorf("the file holds %q, %v", text, err)
	}
	if err := WriteOutput("/dev/full", write); err == nil {
		t.Error("a device that is full took it")
	}
}
