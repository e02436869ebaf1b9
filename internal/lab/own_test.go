package lab

import (
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/target"
)

func TestOwnUser(t *testing.T) {
	root := t.TempDir()
	for file, text := range map[string]string{"passwd": "root:x:0:0::/:/bin/sh\nweb:x:33:44::/:/bin/sh\nbad:x:a:b\n", "group": "root:x:0:\nstaff:x:50:\n"} {
		if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "etc", file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]target.User{
		"": {}, "root": {}, "1000": {UID: 1000}, "web": {UID: 33, GID: 44}, "web:staff": {UID: 33, GID: 50}, "7:8": {UID: 7, GID: 8},
	} {
		if got, err := ownUser(image.Root{Rootfs: root, Config: v1.Config{User: name}}); err != nil || got != want {
			t.Errorf("%q is %+v, %v; want %+v", name, got, err, want)
		}
	}
	for _, name := range []string{"nobody", "web:nobody", "bad"} {
		if got, err := ownUser(image.Root{Rootfs: root, Config: v1.Config{User: name}}); err == nil {
			t.Errorf("%q is %+v", name, got)
		}
	}
}
