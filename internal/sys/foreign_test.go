package sys

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/limit"
)

// TestForeign opens what an attacker may put in a file's place: at a2ee321 a link
// to /dev/zero was read until memory ended, and a pipe without a writer hung.
func TestForeign(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	outside := filepath.Join(t.TempDir(), "outside")
	for _, err := range []error{
		os.WriteFile(at("file"), []byte("text"), 0o600), os.WriteFile(at("long"), make([]byte, 11), 0o600),
		os.WriteFile(outside, []byte("text"), 0o600), os.Symlink("file", at("inside")), os.Symlink(outside, at("outside")),
		os.Symlink("/dev/zero", at("zero")), unix.Mkfifo(at("pipe"), 0o600), os.Mkdir(at("directory"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	l := limit.Limit{Input: "test input", Bytes: 10}
	type open = func(string) error
	opens := map[string]open{
		"foreign": func(n string) error { _, err := ReadForeign(at(n), l); return err },
		"in root": func(n string) error { _, err := ReadForeignIn(root, n, l); return err },
		"given": func(n string) error {
			f, err := OpenGiven(at(n), l)
			if err == nil {
				f.Close()
			}
			return err
		},
	}
	works := map[string]string{"foreign": "file", "in root": "file inside", "given": "file inside outside"}
	for how, open := range opens {
		for _, name := range []string{"file", "long", "inside", "outside", "zero", "pipe", "directory", "missing"} {
			err := open(name)
			if want := strings.Contains(" "+works[how]+" ", " "+name+" "); want != (err == nil) {
				t.Errorf("%s, %s: %v", how, name, err)
			}
			var long *limit.Error
			if name == "long" && !errors.As(err, &long) || name == "missing" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s, %s: the wrong error: %v", how, name, err)
			}
		}
	}
}
