package image

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/limit"
)

func newTestUnpacker(t *testing.T) *unpacker {
	t.Helper()
	u, err := newUnpacker(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.root.Close() })
	return u
}

// nested is a path of n directories.
func nested(n int) string { return strings.Repeat("d/", n) }

func pipe(name string) h { return h{tar.Header{Name: name, Typeflag: tar.TypeFifo}, ""} }

// TestUnpackBounds: names of a MiB, deep directories and many names behind links are
// refused, and the error is short. Each archive is small: on 9b9b524 one of 16,000 pipes
// with such names took 16 GiB of memory, and a name of 500,000 directories ran for days.
func TestUnpackBounds(t *testing.T) {
	const deepest = 256
	long := strings.Repeat("x", 5000)
	about := strings.Repeat("d/../", 700)
	for name, c := range map[string]struct {
		entries []h
		says    string // "" where it is taken
	}{
		"a long name of a pipe":       {[]h{pipe(long)}, "path in an image has more than 4096 bytes"},
		"a long name of a file":       {[]h{file(nested(3000)+"f", "")}, "path in an image has more than 4096 bytes"},
		"a long link":                 {[]h{symlink("l", long)}, "path in an image has more than 4096 bytes"},
		"a long hard link":            {[]h{hard("l", nested(3000))}, "path in an image has more than 4096 bytes"},
		"the deepest file":            {[]h{file(nested(deepest-1)+"f", "")}, ""},
		"a file too deep":             {[]h{file(nested(deepest)+"f", "")}, "path in an image has more than 256 levels"},
		"a directory too deep":        {[]h{dir(nested(deepest)), dir(nested(deepest + 1))}, "path in an image has more than 256 levels"},
		"a pipe too deep":             {[]h{pipe(nested(deepest) + "p")}, "path in an image has more than 256 levels"},
		"deep behind a link":          {[]h{dir(nested(200)), symlink("l", nested(200)), file("l/"+nested(100)+"f", "")}, "path in an image has more than 256 levels"},
		"a long path behind links":    {[]h{dir(strings.Repeat(long[:200]+"/", 15)), symlink("l", strings.Repeat(long[:200]+"/", 15)), dir("l/" + strings.Repeat(long[:200]+"/", 15))}, "path in an image has more than 4096 bytes"},
		"a whiteout too deep":         {[]h{file(nested(deepest+1)+".wh.f", "")}, "path in an image has more than 256 levels"},
		"a hard link to what is deep": {[]h{hard("l", nested(deepest+1)+"f")}, "path in an image has more than 256 levels"},
		"many names behind links": {[]h{dir("d"), symlink("l1", about), symlink("l2", about+"l1"), symlink("l3", about+"l2"), symlink("l4", about+"l3"),
			symlink("l5", about+"l4"), symlink("l6", about+"l5"), file("l6/f", "")}, "path in an image has more than 4096 entries"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := unpack(t.Context(), imageOf(t, c.entries), t.TempDir())
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one with %q", err, c.says)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// TestUnpackCounts: what an archive takes besides its contents counts, too: the paths that
// are kept, and the directories that it does not name.
func TestUnpackCounts(t *testing.T) {
	one := []h{file("a/b/c", "")} // three entries of the disk, and paths of nine bytes
	for name, c := range map[string]struct {
		leave   func(u *unpacker, less int64)
		entries []h
		less    int64 // than the entries take
		says    string
	}{
		"paths that fit":          {func(u *unpacker, less int64) { u.kept = limit.ImagePaths.Bytes - 9 + less }, one, 0, ""},
		"paths that do not":       {func(u *unpacker, less int64) { u.kept = limit.ImagePaths.Bytes - 9 + less }, one, 1, "list of an image's paths has more than"},
		"directories that fit":    {func(u *unpacker, less int64) { u.entries = limit.ImageArchive.Items - 3 + int(less) }, one, 0, ""},
		"directories that do not": {func(u *unpacker, less int64) { u.entries = limit.ImageArchive.Items - 3 + int(less) }, one, 1, "image archive has more than"},
		"bytes that fit":          {func(u *unpacker, less int64) { u.budget = 3*entryBytes - less }, one, 0, ""},
		"bytes that do not":       {func(u *unpacker, less int64) { u.budget = 3*entryBytes - less }, one, 1, "do not fit"},
		"links":                   {func(u *unpacker, less int64) { u.budget = 3*entryBytes - less }, []h{symlink("a", "x"), symlink("b", "x"), symlink("c", "x")}, 1, "do not fit"},
		"contents":                {func(u *unpacker, less int64) { u.budget = entryBytes + 4 - less }, []h{file("a", "1234")}, 1, "do not fit"},
	} {
		t.Run(name, func(t *testing.T) {
			u := newTestUnpacker(t)
			c.leave(u, c.less)
			err := u.archive(bytes.NewReader(archiveOf(t, c.entries...)))
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one with %q", err, c.says)
			}
			if c.says == "do not fit" && !errors.Is(err, unix.ENOSPC) {
				t.Errorf("error %v is not ENOSPC", err)
			}
		})
	}
	full := int64(-spareBytes) // of a disk that has no byte free
	for _, size := range []int64{-1, 1, 1<<63 - 1} {
		if err := spend(&full, size); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// TestZstdWindow: a zstd layer is unpacked, and one that would have 512 MiB kept in memory
// is refused by its header.
func TestZstdWindow(t *testing.T) {
	for window, want := range map[int]error{1 << 20: nil, zstd.MaxWindowSize: zstd.ErrWindowSizeExceeded} {
		var packed bytes.Buffer
		z, err := zstd.NewWriter(&packed, zstd.WithWindowSize(window))
		if err != nil {
			t.Fatal(err)
		}
		text := archiveOf(t, file("a", "1"))
		if _, err := z.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(z.Flush(), z.Close()); err != nil { // a flush: the length is not known, the window counts
			t.Fatal(err)
		}
		dir := t.TempDir()
		from, err := openForeign(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		defer from.close()
		digest, size, err := v1.SHA256(bytes.NewReader(packed.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(dir, "blobs/sha256"), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "blobs/sha256", digest.Hex), packed.String(), 0o600)
		layer, err := partial.CompressedToLayer(ociLayer{from, v1.Descriptor{Digest: digest, Size: size}})
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		u := newTestUnpacker(t)
		err = u.layer(layer, v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])})
		if !errors.Is(err, want) {
			t.Errorf("a window of %d bytes: %v, want %v", window, err, want)
		}
	}
}

// asked is a context that counts how often it is asked.
type asked struct {
	context.Context
	times int
}

func (a *asked) Err() error {
	a.times++
	return a.Context.Err()
}

// TestOpaqueWhiteout: it can be cancelled, and one that is repeated costs nothing.
func TestOpaqueWhiteout(t *testing.T) {
	u := newTestUnpacker(t)
	const dirs = 50
	var lower []h
	for i := range dirs {
		lower = append(lower, dir(fmt.Sprintf("d/lower-%d", i)))
	}
	if err := u.archive(bytes.NewReader(archiveOf(t, lower...))); err != nil {
		t.Fatal(err)
	}
	u.mine = map[string]bool{} // as of the next layer
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	u.ctx = cancelled
	if err := u.hideAll("d"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if got := listing(t, u.root.Name()); len(got) != 1+dirs {
		t.Errorf("cancelled, and %d entries are left", len(got))
	}
	count := &asked{Context: t.Context()}
	u.ctx = count
	for range 3 {
		if err := u.hideAll("d"); err != nil {
			t.Fatal(err)
		}
	}
	if got := listing(t, u.root.Name()); len(got) != 1 || count.times != dirs {
		t.Errorf("left: %v, after %d names", got, count.times)
	}
	// Of one's own layer as well, whose directories stay.
	own := append(slices.Clone(lower), slices.Repeat([]h{file("d/.wh..wh..opq", ""), file(".wh.d", "")}, 20)...)
	count.times = 0
	if err := u.archive(bytes.NewReader(archiveOf(t, own...))); err != nil {
		t.Fatal(err)
	}
	reads := 2 * (len(own) + 2) // at most, one or two a header
	if got := listing(t, u.root.Name()); len(got) != 1+dirs || count.times > reads+dirs {
		t.Errorf("left: %d entries, after %d questions, want at most %d", len(got), count.times, reads+dirs)
	}
	if err := u.finish(); err != nil {
		t.Errorf("permissions of what is gone: %v", err)
	}
}

func TestDirModes(t *testing.T) {
	d := dirModes{}
	for i, at := range []string{".", "a/b/c", "a", "ab/c", "a/d"} {
		d.set(at, fs.FileMode(i))
	}
	seen := func() (all string) {
		_ = d.each(".", func(at string, mode fs.FileMode) error { all += fmt.Sprintf("%s=%d ", at, mode); return nil })
		return all
	}
	if got, want := seen(), "a/b/c=1 a/d=4 a=2 ab/c=3 .=0 "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, at := range []string{"a/b/x", "x", "x/y/z", "a"} {
		d.forget(at)
	}
	if got, want := seen(), "ab/c=3 .=0 "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, left := d.below["a"]; left {
		t.Error("a is kept")
	}
	broken := errors.New("broken")
	if err := d.each(".", func(string, fs.FileMode) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// TestModesAfterWhiteout: a directory that comes again has not the permissions of the one
// that was hidden.
func TestModesAfterWhiteout(t *testing.T) {
	root := t.TempDir()
	lower := []h{{tar.Header{Name: "d", Typeflag: tar.TypeDir, Mode: 0o700}, ""}, {tar.Header{Name: "d/e", Typeflag: tar.TypeDir, Mode: 0o700}, ""}}
	if _, err := unpack(t.Context(), imageOf(t, lower, []h{file(".wh.d", "")}, []h{file("d/e/f", "")}), root); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"d", "d/e"} {
		if info, err := os.Stat(filepath.Join(root, at)); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", at, info.Mode(), err)
		}
	}
}

// sized is a layer that cannot be copied, of any size.
type sized struct {
	v1.Layer
	size int64
}

func (s sized) Size() (int64, error)               { return s.size, nil }
func (s sized) Compressed() (io.ReadCloser, error) { return nil, errors.New("it was copied") }

// TestLayersFit: layers that leave too little of the disk free are not copied to it.
func TestLayersFit(t *testing.T) {
	s := NewStore(t.TempDir())
	layer := static.NewLayer(archiveOf(t, file("a", "1")), types.OCIUncompressedLayer)
	for _, sizes := range [][]int64{{10 << 40}, {-1}, {1<<62 - 1, 1<<62 - 1, 1<<62 - 1}} {
		var layers []v1.Layer
		for _, size := range sizes {
			layers = append(layers, sized{layer, size})
		}
		img, err := makeImage(runtime.GOARCH, layers...)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.keep(t.Context(), func(string) (v1.Image, error) { return img, nil })
		if !errors.Is(err, unix.ENOSPC) {
			t.Errorf("sizes %d: %v", sizes, err)
		}
	}
}

// TestCopyIsCancelled: the copy of a foreign image's layers ends with the context.
func TestCopyIsCancelled(t *testing.T) {
	all := forms(t)
	unpacked := filepath.Join(t.TempDir(), "docker")
	if err := unpackArchive(t.Context(), all["docker"], unpacked); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		dir  string
		open func(foreign) (v1.Image, error)
	}{
		"layout": {all["layout"], func(f foreign) (v1.Image, error) { return f.layout("") }},
		"docker": {unpacked, func(f foreign) (v1.Image, error) { return f.docker("") }},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		from, err := openForeign(ctx, c.dir)
		if err != nil {
			t.Fatal(err)
		}
		defer from.close()
		img, err := c.open(from)
		if err != nil {
			t.Fatal(err)
		}
		at, err := layout.Write(filepath.Join(t.TempDir(), "oci"), empty.Index)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := at.AppendImage(img); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	u := newTestUnpacker(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	u.ctx = ctx
	if err := u.archive(bytes.NewReader(archiveOf(t, file("a", "1")))); !errors.Is(err, context.Canceled) {
		t.Errorf("an archive: %v", err)
	}
}

// TestLeavingsThatStay: what cannot be removed is noted, and keeps neither new images from
// the store nor old ones in it.
func TestLeavingsThatStay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test mounts: run it as root")
	}
	s := NewStore(t.TempDir())
	busy := filepath.Join(s.dir, "tmp-1", "busy")
	second := filepath.Join(s.dir, "tmp-2", "dir")
	if err := errors.Join(os.MkdirAll(busy, 0o755), os.MkdirAll(second, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(t.TempDir(), busy, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the directory was renamed, or not yet
		if matches, err := filepath.Glob(filepath.Join(s.dir, "tmp-*", "busy")); err != nil || len(matches) != 1 {
			t.Error(matches, err)
		} else if err := unix.Unmount(matches[0], unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	r, err := s.ForCommands(t.Context(), small(), []string{"sh"})
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, path.Base(filepath.Dir(busy))) {
		t.Errorf("notes %q", notes)
	}
	if _, err := os.Stat(second); !notExist(err) {
		t.Errorf("what can be removed is left: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	// As an older tare named what it could not prune of an image: in the way of nothing.
	if err := os.Rename(filepath.Dir(busy), filepath.Join(s.dir, "tmp-"+strings.TrimPrefix(r.Digest, "sha256:"))); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Prune(t.Context(), 0, 0); n != 1 || !errors.Is(err, unix.EBUSY) {
		t.Errorf("removed %d, %v; want 1", n, err)
	}
}
