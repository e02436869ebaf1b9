package store

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/limit"
)

func exported(t testing.TB, r *Run) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := r.Export(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestExportedRunIsImportedWhole(t *testing.T) {
	r := create(t, t.TempDir(), 3)
	fill(t, r, 2)
	must(t, r.KeepLog(1, []byte("said")), os.WriteFile(filepath.Join(r.Dir(), environmentFile), []byte(`{"w":{"TOKEN":"secret"}}`), 0o600), r.Close())
	archive, there := exported(t, r), t.TempDir()
	dir, err := Import(there, bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	got, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if log, ok, err := got.Log(1); string(log) != "said" || !ok || err != nil || len(all(t, got)) != 2 || got.Manifest().ID != r.Manifest().ID {
		t.Errorf("%s: log %q, %v, %v", dir, log, ok, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, environmentFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the values of variables came, too: %v", err)
	}
	if again, err := Resume(dir); !errors.Is(err, ErrForeign) {
		t.Errorf("a stranger's run may go on: %v, %v", again, err)
	}
	if _, err := Import(there, bytes.NewReader(archive)); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a second import: %v", err)
	}
	if entries, err := os.ReadDir(filepath.Join(there, "runs")); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// packed is an archive of these entries; of a regular file Linkname is the content.
func packed(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	out := tar.NewWriter(zip)
	for _, h := range entries {
		content := ""
		if h.Typeflag == tar.TypeReg {
			content, h.Linkname = h.Linkname, ""
			h.Size = int64(len(content))
		}
		h.Mode = 0o644
		if err := out.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(out.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestImportRefusesWhatIsNoRun(t *testing.T) {
	file := func(name, content string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeReg, Linkname: content}
	}
	for name, c := range map[string]struct {
		archive []byte
		says    string
	}{
		"no archive":       {[]byte("hello, I am no archive"), "gzip"},
		"an empty archive": {packed(t), "no such run"},
		"no manifest":      {packed(t, file("x/records.jsonl", "")), "no such run"},
		"a bad manifest":   {packed(t, file("x/manifest.json", "{}")), "no schema"},
		"a climb":          {packed(t, file("x/../../manifest.json", "{}")), "not a file of a run"},
		"another file":     {packed(t, file("x/report.html", "")), "not a file of a run"},
		"a variable":       {packed(t, file("x/environment.json", "{}")), "not a file of a run"},
		"a hidden log":     {packed(t, file("x/logs/.1.log.gz", "")), "not a file of a run"},
		"a link":           {packed(t, tar.Header{Name: "x/records.jsonl", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}), "not a file of a run"},
		"a file twice":     {packed(t, file("x/records.jsonl", ""), file("x/records.jsonl", "")), "exists"},
	} {
		root := t.TempDir()
		dir, err := Import(root, bytes.NewReader(c.archive))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q, %v, want %q", name, dir, err, c.says)
		}
		if entries, err := os.ReadDir(filepath.Join(root, "runs")); err != nil || len(entries) != 0 {
			t.Errorf("%s left %v, %v", name, entries, err)
		}
	}
}

// An id that is no time could be what the user calls another run.
func TestImportRefusesAnIDOfItsOwn(t *testing.T) {
	r := create(t, t.TempDir(), 3)
	must(t, r.Close())
	r.manifest.ID = "before"
	must(t, writeJSON(r.root, manifestFile, 0o644, r.manifest))
	if dir, err := Import(t.TempDir(), bytes.NewReader(exported(t, r))); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%q, %v", dir, err)
	}
}

// Machines that start one study in the same second make runs that one store can hold;
// an archive of before ids had the machine is taken, too.
func TestIDsTellMachinesApart(t *testing.T) {
	m, there := manifest(3), t.TempDir()
	m.Created = time.Date(2026, 11, 23, 4, 39, 50, 0, time.UTC)
	for _, host := range []string{"node1", "node2"} {
		m.Host.Hostname = host
		r, err := Create(t.TempDir(), m)
		must(t, err, r.Close())
		if id := r.Manifest().ID; !strings.HasPrefix(id, "20261123-043950-"+m.Study.ID+"-") || !strings.HasSuffix(id, m.Host.Tag()) {
			t.Errorf("id %q", id)
		}
		_, err = Import(there, bytes.NewReader(exported(t, r)))
		must(t, err)
	}
	old := create(t, t.TempDir(), 3)
	must(t, old.Close())
	old.manifest.ID = "20261101-120000-" + m.Study.ID
	must(t, writeJSON(old.root, manifestFile, 0o644, old.manifest))
	_, err := Import(there, bytes.NewReader(exported(t, old)))
	must(t, err)
	if runs, err := List(there); err != nil || len(runs) != 3 {
		t.Errorf("%+v, %v", runs, err)
	}
}

// FuzzImport: whatever an archive holds, nothing stays of one that is refused.
func FuzzImport(f *testing.F) {
	r := create(f, f.TempDir(), 3)
	f.Setenv("TMPDIR", "/dev/shm") // a disk would wait for each file
	f.Add(exported(f, r))
	f.Add(packed(f, tar.Header{Name: "x/manifest.json", Typeflag: tar.TypeReg, Linkname: "{}"}))
	f.Fuzz(func(t *testing.T, archive []byte) {
		if len(archive) > 1<<16 {
			return
		}
		root := t.TempDir()
		_, err := Import(root, bytes.NewReader(archive))
		entries, listed := os.ReadDir(filepath.Join(root, "runs"))
		if listed != nil || (err == nil) != (len(entries) == 1) {
			t.Errorf("%v: left %v, %v", err, entries, listed)
		}
	})
}

func TestRemove(t *testing.T) {
	root := t.TempDir()
	done, live := create(t, root, 3), create(t, root, 3)
	must(t, done.Close())
	if err := Remove(live.Dir()); !errors.Is(err, ErrBusy) {
		t.Errorf("a run that is being written: %v", err)
	}
	must(t, Remove(done.Dir()))
	elsewhere := t.TempDir()
	if err := Remove(elsewhere); !errors.Is(err, ErrNotRun) {
		t.Errorf("%s: %v", elsewhere, err)
	}
	link := filepath.Join(root, "runs", "link")
	must(t, os.Symlink(elsewhere, link))
	if err := Remove(link); !errors.Is(err, ErrNotRun) {
		t.Errorf("a link: %v", err)
	}
	// What a kill left in the middle.
	must(t, os.Mkdir(filepath.Join(root, "runs", ".x.77"), 0o755), os.WriteFile(filepath.Join(root, "runs", ".x.77", recordsFile), []byte("{}\n"), 0o644))
	if runs, err := List(root); err != nil || len(runs) != 2 { // live, and the link's problem
		t.Errorf("%+v, %v", runs, err)
	}
	if did, err := Sweep(root); err != nil || len(did) != 1 {
		t.Errorf("%q, %v", did, err)
	}
}

func TestNames(t *testing.T) {
	root := t.TempDir()
	a, b := create(t, root, 3), create(t, root, 3)
	must(t, SetName(a.Dir(), "before"), SetName(a.Dir(), "before"), SetName(b.Dir(), "after"))
	if dir, err := Resolve(root, "before"); dir != a.Dir() || err != nil {
		t.Errorf("%s, %v", dir, err)
	}
	for _, bad := range []string{"before", "last", "2026", "-f", "a/b", "a b", ".x", strings.Repeat("a", 65), "\x1b[2J"} {
		if err := SetName(b.Dir(), bad); err == nil {
			t.Errorf("%q is a name", bad)
		}
	}
	must(t, SetName(a.Dir(), ""), SetName(a.Dir(), ""), SetName(b.Dir(), "before"))
	must(t, os.WriteFile(filepath.Join(a.Dir(), nameFile), bytes.Repeat([]byte("x"), int(limit.RunName.Bytes)+1), 0o644))
	if dir, err := Resolve(root, "before"); dir != b.Dir() || err != nil {
		t.Errorf("%s, %v", dir, err)
	}
}
