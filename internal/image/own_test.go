package image

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tarelab/tare/internal/limit"
)

// Files of a directory that the user names stand in the root at their places: a program
// with its libraries, a script as it is.
func TestOwnFiles(t *testing.T) {
	dir := t.TempDir()
	program, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "pgms"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "pgms", "program"), string(program), 0o700)
	write(t, filepath.Join(dir, "pgms", "script.sh"), "#! /bin/sh\necho script ran\n", 0o755)
	write(t, filepath.Join(dir, "text"), "some text\n", 0o600)
	var files []OwnFile
	for _, name := range []string{"pgms/program", "pgms/script.sh", "text"} {
		files = append(files, OwnFile{dir, name, "/.tare/user/" + name, ""})
	}
	s := NewStore(t.TempDir())
	r, err := s.ForCommands(t.Context(), small(), []string{"/bin/sh"}, files...)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, c := range []struct {
		argv []string
		want string
	}{
		{[]string{"/.tare/user/pgms/program"}, ""}, {[]string{"/.tare/user/pgms/script.sh"}, "script ran"},
		{[]string{"/bin/sh", "-c", "read line </.tare/user/text; echo $line"}, "some text"},
	} {
		if out, err := in(t, r, c.argv...); err != nil || !strings.Contains(out, c.want) {
			t.Errorf("%q: %v: %s", c.argv, err, out)
		}
	}
	if missing, err := r.Misses("/.tare/user/pgms/program"); missing != "" || err != nil {
		t.Errorf("it misses %q, %v", missing, err)
	}
	if c := r.CLibrary(); !strings.HasPrefix(c, "GNU C Library (") || !strings.Contains(c, "version 2.") {
		t.Errorf("the C library calls itself %q", c)
	}

	digests, err := r.LoaderDigests("/.tare/user/pgms/program")
	if err != nil || len(digests) != 2 || !strings.HasPrefix(digests["libc.so.6"], "sha256:") {
		t.Errorf("loader and C library: %v, %v", digests, err)
	}
	if digests, err := r.LoaderDigests("/.tare/user/text"); err != nil || len(digests) != 0 {
		t.Errorf("no program: %v, %v", digests, err)
	}

	// Other bytes give another image.
	write(t, filepath.Join(dir, "text"), "other text\n", 0o600)
	other, err := s.ForCommands(t.Context(), small(), []string{"/bin/sh"}, files...)
	if err != nil || other.Digest == r.Digest {
		t.Errorf("another file gives %s as well, %v", other.Digest, err)
	}
	_ = other.Close() // only a lock for reading

	saved := small()
	saved.saved = "bench.tar"
	if _, err := s.ForCommands(t.Context(), saved, nil, files...); err == nil || !strings.Contains(err.Error(), "no file of this machine is put into the saved workbench bench.tar") {
		t.Errorf("a saved workbench: %v", err)
	}
}

// What is no plain file of the directory is refused by its name.
func TestOwnFilesThatAreRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test makes a device: run it as root")
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	outside := write(t, filepath.Join(t.TempDir(), "secret"), "secret", 0o600)
	must(os.Symlink(outside, at("link")))
	must(os.Symlink(filepath.Dir(outside), at("links")))
	must(syscall.Mkfifo(at("pipe"), 0o600))
	must(syscall.Mknod(at("device"), syscall.S_IFCHR|0o600, 1<<8|5)) // /dev/zero
	must(os.Mkdir(at("directory"), 0o755))
	must(os.WriteFile(at("long"), nil, 0o600))
	must(os.Truncate(at("long"), limit.OwnProgram.Bytes+1))
	foreign := program(t, 1)
	foreign[18] = 0xff // e_machine
	must(os.WriteFile(at("foreign"), foreign, 0o755))
	must(os.WriteFile(at("cut"), foreign[:20], 0o755))
	for name, want := range map[string]string{
		"missing": "does not exist: was it built?", "link": "link is a symbolic link", "links/secret": "links is a symbolic link", "pipe": "not a regular file",
		"device": "not a regular file", "directory": "not a regular file", "long": "more than", "foreign": "is a program for", "cut": "cut short",
		"../secret": "",
	} {
		r, err := NewStore(t.TempDir()).ForCommands(t.Context(), small(), nil, OwnFile{dir, name, "/own", "was it built?"})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), filepath.Join(dir, name)) {
			t.Errorf("%s: %q, %v", name, r.Digest, err)
		}
	}
	if _, err := NewStore(t.TempDir()).ForCommands(t.Context(), small(), nil, OwnFile{at("none"), "x", "/own", ""}); err == nil || !strings.Contains(err.Error(), at("none")) {
		t.Errorf("no directory: %v", err)
	}
}

// A root shows what a dynamic program lacks in it, and a hostile C library says nothing.
func TestRootsThatLackLibraries(t *testing.T) {
	root := func(files map[string]string) Root {
		dir := t.TempDir()
		for name, text := range files {
			if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, name), text, 0o755)
		}
		return Root{Rootfs: dir}
	}
	needs := string(program(t, 1)) // needs lib00000000
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"nothing":   {map[string]string{"x": ""}, "/program"},
		"a library": {map[string]string{"program": needs}, "lib00000000"},
		"no more":   {map[string]string{"program": needs, "lib/lib00000000": needs}, ""},
	} {
		if got, err := root(c.files).Misses("/program"); got != c.want || err != nil {
			t.Errorf("%s: it misses %q, want %q; %v", name, got, c.want, err)
		}
	}
	for _, text := range []string{"", "GNU C Library ", "GNU C Library " + strings.Repeat("x", 1000) + "\n"} {
		if got := root(map[string]string{"lib/libc.so.6": text}).CLibrary(); got != "" {
			t.Errorf("%.20q calls itself %q", text, got)
		}
	}
	if got := root(map[string]string{"lib/libc.so.6": "\x00GNU C Library (A 1) version 1.\nmore"}).CLibrary(); got != "GNU C Library (A 1) version 1" {
		t.Errorf("%q", got)
	}
}
