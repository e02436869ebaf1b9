package image

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/limit"
)

// TestHostileLayouts gives Import layouts that attack who reads them. At a2ee321 the
// link to /dev/zero was read until memory ended, the pipe hung, and /etc/shadow was
// opened.
func TestHostileLayouts(t *testing.T) {
	blobs := func(dir string) []string {
		all, err := filepath.Glob(filepath.Join(dir, "blobs/sha256/*"))
		if err != nil || len(all) == 0 {
			t.Fatal(all, err)
		}
		return all
	}
	link := func(to string) func(string) error {
		return func(file string) error { return errors.Join(os.Remove(file), os.Symlink(to, file)) }
	}
	pipe := func(file string) error { return errors.Join(os.Remove(file), unix.Mkfifo(file, 0o600)) }
	long := func(file string) error { return os.Truncate(file, limit.ImageDocument.Bytes+1) }
	for name, c := range map[string]struct {
		spoil func(string) error
		says  string
	}{
		"a link to /dev/zero": {link("/dev/zero"), "escapes"}, "a link to /etc/shadow": {link("/etc/shadow"), "escapes"},
		"a link up": {link("../../../../../../../../etc/shadow"), "escapes"}, "a pipe": {pipe, "not a regular file"},
		"a directory": {func(f string) error { return errors.Join(os.Remove(f), os.Mkdir(f, 0o700)) }, "not a regular file"},
	} {
		for _, where := range []string{"index", "blobs"} {
			t.Run(name+" in place of "+where, func(t *testing.T) {
				dir := forms(t)["layout"]
				files := []string{filepath.Join(dir, "index.json")}
				if where == "blobs" {
					files = blobs(dir)
				}
				for _, f := range files {
					if err := c.spoil(f); err != nil {
						t.Fatal(err)
					}
				}
				refused(t, dir, c.says)
			})
		}
	}
	t.Run("a long index", func(t *testing.T) {
		dir := forms(t)["layout"]
		if err := long(filepath.Join(dir, "index.json")); err != nil {
			t.Fatal(err)
		}
		refused(t, dir, "has more than 4194304 bytes")
	})
	t.Run("many descriptors", func(t *testing.T) {
		dir := forms(t)["layout"]
		one := fmt.Sprintf(`{"mediaType":"x","size":1,"digest":"sha256:%064d"}`, 1)
		write(t, filepath.Join(dir, "index.json"), `{"schemaVersion":2,"manifests":[`+strings.Repeat(one+",", limit.ImageDocument.Items)+one+`]}`, 0o600)
		refused(t, dir, "has more than 1024 entries")
	})
	t.Run("indexes inside indexes", func(t *testing.T) {
		dir := forms(t)["layout"]
		inner := `{"schemaVersion":2,"manifests":[]}`
		for range limit.ImageDocument.Depth + 1 {
			sum := sha256.Sum256([]byte(inner))
			digest := hex.EncodeToString(sum[:])
			write(t, filepath.Join(dir, "blobs/sha256", digest), inner, 0o600)
			inner = fmt.Sprintf(`{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","size":%d,"digest":"sha256:%s"}]}`, len(inner), digest)
		}
		write(t, filepath.Join(dir, "index.json"), inner, 0o600)
		refused(t, dir, "has more than 4 levels")
	})
	t.Run("a digest that is a path", func(t *testing.T) {
		dir := forms(t)["layout"]
		write(t, filepath.Join(dir, "index.json"), `{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":1,"digest":"sha256:../../../../etc/shadow"}]}`, 0o600)
		refused(t, dir, "")
	})
}

// refused imports an image that must be refused, in little memory.
func refused(t *testing.T, ref, says string) {
	t.Helper()
	err := limit.ImageDocument.CheckAlloc(func() {
		r, err := NewStore(t.TempDir()).Import(t.Context(), ref, small())
		if err == nil {
			r.Close()
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want an error with %q", err, says)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// TestHostileArchives: the files of docker save that describe its images are short
// and its own.
func TestHostileArchives(t *testing.T) {
	manifest, err := json.Marshal([]dockerEntry{{Config: "config.json", Layers: []string{"layer.tar"}}})
	if err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat(" ", int(limit.ImageDocument.Bytes)+1)
	for name, c := range map[string]struct {
		files []h
		says  string
	}{
		"a link in place of the manifest": {[]h{symlink("manifest.json", "/dev/zero")}, "escapes"},
		"a link in place of the config":   {[]h{file("manifest.json", string(manifest)), symlink("config.json", "/etc/shadow")}, "escapes"},
		"a long manifest":                 {[]h{file("manifest.json", big)}, "has more than 4194304 bytes"},
		"a long config":                   {[]h{file("manifest.json", string(manifest)), file("config.json", big)}, "has more than 4194304 bytes"},
		"no images":                       {[]h{file("manifest.json", "[]")}, "it holds 0 images"},
		"not JSON":                        {[]h{file("manifest.json", "{")}, "manifest.json"},
		"a config that leads out":         {[]h{file("manifest.json", `[{"Config":"../../etc/passwd","Layers":[]}]`)}, "escapes"},
	} {
		t.Run(name, func(t *testing.T) {
			ref := filepath.Join(t.TempDir(), "image.tar")
			write(t, ref, string(archiveOf(t, c.files...)), 0o600)
			refused(t, ref, c.says)
		})
	}
	t.Run("a pipe", func(t *testing.T) {
		ref := filepath.Join(t.TempDir(), "pipe")
		if err := unix.Mkfifo(ref, 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, ref, "not a regular file")
	})
}

// TestStoreIsPrivate: at a2ee321 any local user could plant links below
// rootfs/tmp, which is 1777, and the payloads of root followed them.
func TestStoreIsPrivate(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test becomes another user: run it as root")
	}
	state := t.TempDir()
	for dir := state; dir != "/"; dir = filepath.Dir(dir) { // the store alone is to keep others out
		if err := os.Chmod(dir, 0o755); err != nil && dir != os.TempDir() {
			t.Fatal(err)
		}
		if filepath.Dir(dir) == os.TempDir() {
			break
		}
	}
	// A cache of an older tare, open to all.
	if err := os.Mkdir(filepath.Join(state, "images"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := NewStore(state)
	ref := forms(t)["layout"]
	r, err := s.Import(t.Context(), ref, small())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	plant := exec.Command("/bin/sh", "-c", "ls "+s.dir+" || ln -s /etc/shadow "+filepath.Join(r.Rootfs, "planted"))
	plant.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := plant.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("ermission denied")) {
		t.Errorf("another user entered the cache: %v, %s", err, out)
	}
	if err := os.Chown(s.dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Import(t.Context(), ref, small()); err == nil || !strings.Contains(err.Error(), "belongs to user 65534") {
		t.Errorf("a cache of another user: %v", err)
	}
}

// TestChangedRoot: a root that was changed in the cache is unpacked again, with a
// note, or refused while another process uses it.
func TestChangedRoot(t *testing.T) {
	ref := forms(t)["layout"]
	for name, change := range map[string]func(root string) error{
		"contents": func(root string) error {
			file := filepath.Join(root, "etc/who")
			info, err := os.Stat(file)
			if err != nil {
				return err
			}
			return errors.Join(os.WriteFile(file, []byte("UPPER"), 0o600), os.Chtimes(file, info.ModTime(), info.ModTime()))
		},
		"mode":      func(root string) error { return os.Chmod(filepath.Join(root, "etc/who"), 0o777) },
		"new file":  func(root string) error { return os.Symlink("/etc/shadow", filepath.Join(root, "etc/planted")) },
		"removed":   func(root string) error { return os.Remove(filepath.Join(root, "etc/who")) },
		"unsealed":  func(root string) error { return os.Remove(filepath.Join(filepath.Dir(root), sealFile)) },
		"in place":  func(root string) error { return os.Rename(filepath.Join(root, "etc"), filepath.Join(root, "etc2")) },
		"unchanged": nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStore(t.TempDir())
			first, err := s.Import(t.Context(), ref, small())
			if err != nil {
				t.Fatal(err)
			}
			want := listing(t, first.Rootfs)
			if change != nil {
				if err := change(first.Rootfs); err != nil {
					t.Fatal(err)
				}
				if _, err := s.Import(t.Context(), ref, small()); err == nil || !strings.Contains(err.Error(), "another process uses it") {
					t.Errorf("changed and in use: %v", err)
				}
			}
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			again, err := s.Import(t.Context(), ref, small())
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			if got := listing(t, again.Rootfs); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got %v, want %v", got, want)
			}
			noted := strings.Contains(strings.Join(again.Notes, "\n"), "was changed after it was unpacked")
			if noted != (change != nil) {
				t.Errorf("notes: %q", again.Notes)
			}
		})
	}
	if _, err := use(t.Context(), filepath.Join(t.TempDir(), "none"), ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no image: %v", err)
	}
}
