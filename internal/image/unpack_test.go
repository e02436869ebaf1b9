package image

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// h is one entry of a test archive; body is a regular file's contents.
type h struct {
	tar.Header
	body string
}

func file(name, body string) h { return h{tar.Header{Name: name, Mode: 0o644}, body} }
func dir(name string) h {
	return h{tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755}, ""}
}
func symlink(name, to string) h {
	return h{tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to, Mode: 0o777}, ""}
}
func hard(name, to string) h {
	return h{tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: to, Mode: 0o644}, ""}
}

func archiveOf(t testing.TB, entries ...h) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if e.Typeflag == 0 {
			e.Typeflag, e.Size = tar.TypeReg, int64(len(e.body))
		}
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func imageOf(t testing.TB, layers ...[]h) v1.Image {
	t.Helper()
	var ls []v1.Layer
	for _, l := range layers {
		ls = append(ls, static.NewLayer(archiveOf(t, l...), types.OCIUncompressedLayer))
	}
	img, err := makeImage(runtime.GOARCH, ls...)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// listing shows a directory: files with their contents, links with their targets.
func listing(t *testing.T, root string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		switch {
		case d.IsDir():
			got[rel] = "/"
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			got[rel] = "->" + to
			return err
		default:
			b, err := os.ReadFile(p)
			got[rel] = string(b)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestUnpackLayers(t *testing.T) {
	for name, c := range map[string]struct {
		layers [][]h
		want   map[string]string
	}{
		"an upper file replaces a lower one": {
			[][]h{{file("a", "1"), file("b", "1")}, {file("a", "2")}},
			map[string]string{"a": "2", "b": "1"},
		},
		"whiteouts": {
			[][]h{{dir("d"), file("d/x", "1"), file("d/y", "1"), file("e", "1")}, {file("d/.wh.x", ""), file(".wh.e", "")}},
			map[string]string{"d": "/", "d/y": "1"},
		},
		"a whiteout spares its own layer": {
			[][]h{{file("d/x", "1"), file("d/y", "1")}, {file("d/x", "2"), file("d/.wh.x", ""), file("d/z", "2"), file("d/.wh..wh..opq", "")}},
			map[string]string{"d": "/", "d/x": "2", "d/z": "2"},
		},
		"opaque before its layer's files": {
			[][]h{{file("d/s/x", "1")}, {file("d/.wh..wh..opq", ""), file("d/s/y", "2")}},
			map[string]string{"d": "/", "d/s": "/", "d/s/y": "2"},
		},
		"a path through a link of a lower layer": {
			[][]h{{dir("run"), symlink("var/run", "/run")}, {file("var/run/pid", "1")}},
			map[string]string{"run": "/", "run/pid": "1", "var": "/", "var/run": "->/run"},
		},
		"a link becomes a directory": {
			[][]h{{dir("a"), symlink("b", "a")}, {dir("b"), file("b/x", "1")}},
			map[string]string{"a": "/", "b": "/", "b/x": "1"},
		},
		"a hard link keeps the lower contents": {
			[][]h{{file("a", "1"), hard("b", "a")}, {file("a", "2")}},
			map[string]string{"a": "2", "b": "1"},
		},
		"devices are left out": {
			[][]h{{{tar.Header{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}, ""}, {tar.Header{Name: "p", Typeflag: tar.TypeFifo}, ""}}},
			map[string]string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			if _, err := unpack(t.Context(), imageOf(t, c.layers...), root); err != nil {
				t.Fatal(err)
			}
			got := listing(t, root)
			for p, want := range c.want {
				if got[p] != want {
					t.Errorf("%s is %q, want %q", p, got[p], want)
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("got %v", got)
			}
		})
	}
}

// Whatever a hostile archive tries, nothing outside the root changes, and the
// error names the entry.
func TestUnpackHostile(t *testing.T) {
	for name, c := range map[string]struct {
		entries []h
		says    string // "" where it is harmless inside the root
	}{
		"dots":                     {[]h{file("../outside/file", "x")}, "outside the image"},
		"dots in the middle":       {[]h{file("a/../../outside/file", "x")}, "outside the image"},
		"absolute name":            {[]h{file("/outside/file", "x")}, ""},
		"absolute link":            {[]h{symlink("l", "OUTSIDE"), file("l/file", "x")}, ""},
		"climbing link":            {[]h{symlink("l", "../../../../../../outside"), file("l/file", "x")}, ""},
		"link to a file outside":   {[]h{symlink("file", "OUTSIDE/file"), file("file", "x")}, ""},
		"hard link outside":        {[]h{hard("l", "../outside/file")}, "outside the image"},
		"hard link through a link": {[]h{symlink("l", "OUTSIDE"), hard("m", "l/file")}, "m"},
		"hard link to itself":      {[]h{file("a", "1"), hard("a", "a")}, "itself"},
		"links in a circle":        {[]h{symlink("a", "b"), symlink("b", "a"), file("a/x", "")}, "symbolic links"},
		"whiteout of the parent":   {[]h{file("d/.wh...", "")}, "without a name"},
		"whiteout of nothing":      {[]h{file("d/.wh.", "")}, "without a name"},
		"whiteout through a link":  {[]h{symlink("l", "OUTSIDE"), file("l/.wh.file", "")}, ""},
		"opaque through a link":    {[]h{symlink("l", "OUTSIDE"), file("l/.wh..wh..opq", "")}, ""},
		"a file as the root":       {[]h{file(".", "x")}, "root directory"},
		"below a file":             {[]h{file("a", ""), file("a/b", "")}, "a/b"},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			outside, root := filepath.Join(top, "outside"), filepath.Join(top, "root")
			for _, d := range []string{outside, root} {
				if err := os.Mkdir(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(outside, "file"), []byte("untouched"), 0o600); err != nil {
				t.Fatal(err)
			}
			for i := range c.entries {
				c.entries[i].Linkname = strings.Replace(c.entries[i].Linkname, "OUTSIDE", outside, 1)
			}
			_, err := unpack(t.Context(), imageOf(t, c.entries), root)
			if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("error %v, want one with %q", err, c.says)
			}
			if got := listing(t, outside); len(got) != 1 || got["file"] != "untouched" {
				t.Errorf("outside is now %v", got)
			}
		})
	}
}

func TestUnpackHugeAndCut(t *testing.T) {
	huge := archiveOf(t, h{tar.Header{Name: "huge", Typeflag: tar.TypeReg, Size: 0}, ""})
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "huge", Typeflag: tar.TypeReg, Size: 1 << 60, Format: tar.FormatGNU}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		bytes []byte
		says  string
	}{
		"an exabyte":  {b.Bytes(), "do not fit"},
		"cut short":   {archiveOf(t, file("a", strings.Repeat("x", 4096)))[:1024], "unexpected EOF"},
		"not a tar":   {bytes.Repeat([]byte("garbage!"), 200), "archive"},
		"cut at once": {huge[:100], "unexpected EOF"},
	} {
		img, err := makeImage(runtime.GOARCH, static.NewLayer(c.bytes, types.OCIUncompressedLayer))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := unpack(t.Context(), img, t.TempDir()); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.says)
		}
	}
}

func TestUnpackPermissions(t *testing.T) {
	root := t.TempDir()
	notes, err := unpack(t.Context(), imageOf(t, []h{
		{tar.Header{Name: "su", Typeflag: tar.TypeReg, Mode: 0o4755}, ""},
		{tar.Header{Name: "tmp", Typeflag: tar.TypeDir, Mode: 0o1777}, ""},
		{tar.Header{Name: "locked", Typeflag: tar.TypeDir, Mode: 0o555}, ""},
		file("locked/x", "1"),
	}), root)
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]fs.FileMode{"su": 0o755, "tmp": fs.ModeDir | fs.ModeSticky | 0o777, "locked": fs.ModeDir | 0o555} {
		info, err := os.Stat(filepath.Join(root, p))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", p, info.Mode(), err, want)
		}
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "set-user-id") {
		t.Errorf("notes %q", notes)
	}
	if err := os.Chmod(filepath.Join(root, "locked"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(archiveOf(f, file("a", "1"), symlink("b", "/a"), hard("c", "a"), file(".wh.a", "")))
	f.Add(archiveOf(f, symlink("l", "../.."), file("l/x", "1")))
	f.Fuzz(func(t *testing.T, b []byte) {
		top := t.TempDir()
		root := filepath.Join(top, "root")
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		u, err := newUnpacker(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		defer u.root.Close()
		u.budget = 1 << 20
		_ = u.archive(bytes.NewReader(b)) // any error will do, an escape will not
		left, err := os.ReadDir(top)
		if err != nil || len(left) != 1 {
			t.Fatalf("beside the root there is %v, %v", left, err)
		}
		_ = removeTree(root)
	})
}
