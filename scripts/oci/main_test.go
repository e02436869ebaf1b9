package main

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/tarelab/tare/internal/image"
)

// TestImage writes an image for three architectures. It is valid, the same bits each
// time, and tare itself takes this machine's from it.
func TestImage(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	var architectures []string
	for _, arch := range []string{"mips64le", "loong64", runtime.GOARCH} {
		folder := t.TempDir()
		for name, text := range map[string]string{"tare": "tare for " + arch, "LICENSE": "licence"} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		architectures = append(architectures, arch+"="+folder)
	}
	var first, second string
	for _, dir := range []*string{&first, &second} {
		*dir = t.TempDir()
		if err := run(*dir, "v1.2.3", "0123abc", architectures); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(contents(t, first), contents(t, second)); d != "" {
		t.Errorf("two builds differ:\n%s", d)
	}
	index, err := layout.ImageIndexFromPath(first)
	if err == nil {
		err = validate.Index(index)
	}
	if err != nil {
		t.Error(err)
	}
	root, err := image.NewStore(t.TempDir()).Import(t.Context(), first, image.Root{})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	program := filepath.Join(root.Rootfs, "usr/bin/tare")
	text, err := os.ReadFile(program)
	if want := "tare for " + runtime.GOARCH; err != nil || string(text) != want {
		t.Errorf("the image of this architecture has %q, want %q, %v", text, want, err)
	}
	if info, err := os.Stat(program); err == nil && info.Mode() != 0o755 {
		t.Errorf("its program has mode %v", info.Mode())
	}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all[path[len(dir):]] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
