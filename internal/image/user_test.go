package image

import (
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func TestUser(t *testing.T) {
	root := t.TempDir()
	etc := filepath.Join(root, "etc")
	if err := os.Mkdir(etc, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"passwd": "root:x:0:0::/:/bin/sh\nweb:x:33:44::/:/bin/sh\n", "group": "root:x:0:\nstaff:x:50:\n"} {
		if err := os.WriteFile(filepath.Join(etc, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string][2]uint32{
		"": {}, "root": {}, "1000": {1000, 0}, "33": {33, 44}, "web": {33, 44}, "web:staff": {33, 50}, "7:8": {7, 8},
	} {
		uid, gid, err := Root{Rootfs: root, Config: v1.Config{User: name}}.User()
		if err != nil || [2]uint32{uid, gid} != want {
			t.Errorf("%q is %d:%d, %v; want %d", name, uid, gid, err, want)
		}
	}
	for _, name := range []string{"nobody", "web:nobody", "-1"} {
		if uid, gid, err := (Root{Rootfs: root, Config: v1.Config{User: name}}).User(); err == nil {
			t.Errorf("%q is %d:%d", name, uid, gid)
		}
	}
}

// A link in an image leads to no file of the host.
func TestUsersFileIsTheImages(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../../../../../../../etc/passwd", filepath.Join(root, "etc/passwd")); err != nil {
		t.Fatal(err)
	}
	if uid, gid, err := (Root{Rootfs: root, Config: v1.Config{User: "daemon"}}).User(); err == nil {
		t.Errorf("the host's daemon is %d:%d", uid, gid)
	}
}
