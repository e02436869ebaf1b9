package debian

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/sys"
)

// needApt skips where there is no Debian: what is tested is what apt does.
func needApt(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("this machine has no apt: ", err)
		}
	}
	if _, err := os.Stat(Keyring); err != nil {
		t.Skip("this machine has no keys of Debian's archive: ", err)
	}
}

func TestNamesAreChecked(t *testing.T) {
	good := Archive{Port: Port{"arm64", "trixie"}, Mirror: DefaultMirror}
	if err := good.Check([]string{"iperf3", "libstdc++6", "g++", "python3.13-minimal"}); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"", "-y", "bash-", "a b", "?essential", "a=1", "./x.deb", "a/sid", "A"} {
		if err := good.Check([]string{name}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("the package %q is taken: %v", name, err)
		}
	}
	for _, a := range []Archive{
		{Port: Port{"arm64", "sid main\ndeb"}, Mirror: DefaultMirror},
		{Port: Port{"arm64", ""}, Mirror: DefaultMirror},
		{Port: Port{"arm64", "sid"}, Mirror: "http://x y"},
		{Port: Port{"arm64", "sid"}, Mirror: "copy:/x"},
		{Port: Port{"arm64", "sid"}, Mirror: ""},
	} {
		if err := a.Check(nil); err == nil {
			t.Errorf("%+v is taken", a)
		}
	}
}

// TestIndexThatCannotBeHad: there is none, and one that Debian's keys have not signed.
func TestIndexThatCannotBeHad(t *testing.T) {
	needApt(t)
	mirror := t.TempDir()
	unsigned := filepath.Join(mirror, "dists/sid")
	if err := os.MkdirAll(filepath.Join(unsigned, "main/binary-loong64"), 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"Release":                      "Origin: Debian\nSuite: sid\nCodename: sid\nArchitectures: loong64\nComponents: main\nDate: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 0 main/binary-loong64/Packages\n",
		"main/binary-loong64/Packages": "",
	} {
		if err := os.WriteFile(filepath.Join(unsigned, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, url := range map[string]string{"nobody answers": "http://127.0.0.1:9/debian", "it is not there": "file://" + t.TempDir(), "it is not signed": "file://" + mirror} {
		t.Run(name, func(t *testing.T) {
			a := Archive{Port: Port{"loong64", "sid"}, Mirror: url, Dir: t.TempDir()}
			if err := a.Check(nil); err != nil {
				t.Fatal(err)
			}
			_, err := a.Open(t.Context())
			lack := (*LackError)(nil)
			if !errors.As(err, &lack) || !strings.Contains(lack.What, "the index of Debian sid for loong64 cannot be had from "+url) {
				t.Fatalf("error %v", err)
			}
			if name == "it is not signed" && !strings.Contains(lack.What, "not signed") {
				t.Errorf("it does not say why: %v", err)
			}
		})
	}
}

// TestConfigurationIsNotChangedUnderAnother: apt of the process that has the lock reads the
// files that the next one writes.
func TestConfigurationIsNotChangedUnderAnother(t *testing.T) {
	needApt(t)
	a := Archive{Port: Port{"loong64", "sid"}, Mirror: DefaultMirror, Dir: t.TempDir()}
	dir := filepath.Join(a.Dir, "sid-loong64")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	held, err := sys.LockFile(t.Context(), filepath.Join(dir, "lock"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	sources := filepath.Join(dir, "sources.list")
	if err := os.WriteFile(sources, []byte("of the other\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := a.Open(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it did not wait for the lock: %v", err)
	}
	if text, err := os.ReadFile(sources); err != nil || string(text) != "of the other\n" {
		t.Errorf("the source is %q, %v", text, err)
	}
}

// FuzzEntries: names of a package's files lead out of no root, and nothing panics.
func FuzzEntries(f *testing.F) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{{Name: "./", Typeflag: tar.TypeDir}, {Name: "./usr/bin/x", Typeflag: tar.TypeReg, Size: 1}, {Name: "../../y", Typeflag: tar.TypeLink, Linkname: "../x"}} {
		if err := w.WriteHeader(&h); err != nil {
			f.Fatal(err)
		}
		if _, err := w.Write(make([]byte, h.Size)); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = entries(bytes.NewReader(data), func(h *tar.Header, _ io.Reader) error {
			if !filepath.IsLocal(h.Name) || h.Typeflag == tar.TypeLink && !filepath.IsLocal(h.Linkname) {
				t.Errorf("%q, a link to %q, leads out of the root", h.Name, h.Linkname)
			}
			return nil
		})
	})
}

func TestDamagedPackage(t *testing.T) {
	needApt(t)
	file := filepath.Join(t.TempDir(), "x.deb")
	if err := os.WriteFile(file, []byte("!<arch>\ndebian-binary"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := Package{Name: "x", File: file}
	if _, err := p.Control(t.Context()); err == nil || !strings.Contains(err.Error(), "package x") {
		t.Errorf("error %v", err)
	}
}
