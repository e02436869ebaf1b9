package image

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cavaliergopher/cpio"
)

// guestTree is a root with what an initramfs and a disk must keep.
func guestTree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	err := errors.Join(
		os.MkdirAll(filepath.Join(root, "a b/deep"), 0o750),
		os.Mkdir(filepath.Join(root, "tmp"), 0o777),
		os.Chmod(filepath.Join(root, "tmp"), 0o777|fs.ModeSticky),
		os.WriteFile(filepath.Join(root, "a b/deep/file"), []byte("seven b"), 0o640),
		os.WriteFile(filepath.Join(root, "empty"), nil, 0o600),
		os.Symlink("deep/file", filepath.Join(root, "a b/link")),
		os.WriteFile(filepath.Join(root, "setuid"), []byte("x"), 0o755),
		os.Chmod(filepath.Join(root, "setuid"), 0o755|fs.ModeSetuid),
	)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func TestInitramfs(t *testing.T) {
	var out bytes.Buffer
	extra := []File{{Path: "/.tare/init", Mode: 0o755, Data: []byte("agent")}, {Path: "/tmp/more", Mode: 0o644, Data: []byte("!")}}
	if err := Initramfs(t.Context(), &out, guestTree(t), extra); err != nil {
		t.Fatal(err)
	}
	type entry struct {
		mode cpio.FileMode
		data string
	}
	got := map[string]entry{}
	r := cpio.NewReader(bytes.NewReader(out.Bytes()))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := got[h.Name]; twice {
			t.Errorf("%s stands there twice", h.Name)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name] = entry{h.Mode, string(data) + h.Linkname}
	}
	for name, want := range map[string]entry{
		"a b": {0o40750, ""}, "a b/deep/file": {0o100640, "seven b"}, "a b/link": {0o120777, "deep/file"}, "empty": {0o100600, ""},
		"tmp": {0o41777, ""}, "setuid": {0o104755, "x"}, ".tare": {0o40755, ""}, ".tare/init": {0o100755, "agent"}, "tmp/more": {0o100644, "!"},
	} {
		if got[name] != want {
			t.Errorf("%s is %o %q, want %o %q", name, got[name].mode, got[name].data, want.mode, want.data)
		}
	}
	if len(got) != 10 {
		t.Errorf("%d entries, want 10: %v", len(got), got)
	}
}

func TestExt4(t *testing.T) {
	file := filepath.Join(t.TempDir(), "root.ext4")
	if err := Ext4(t.Context(), file, guestTree(t)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("/usr/sbin/e2fsck", "-fn", file).CombinedOutput(); err != nil {
		t.Errorf("e2fsck: %v: %s", err, out)
	}
	out, err := exec.Command("/usr/sbin/debugfs", "-R", `cat "/a b/deep/file"`, file).Output()
	if err != nil || string(out) != "seven b" {
		t.Errorf("the file holds %q (%v)", out, err)
	}
	if err := Ext4(t.Context(), filepath.Join(t.TempDir(), "no/such/dir"), guestTree(t)); err == nil {
		t.Error("a file in a directory that does not exist was made")
	}
}
