package image

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

var guest = map[string][]byte{"/.tare/mark": []byte("#!/bin/sh\nexec \"$@\"\n")}

// small is a bench without programs: enough for what only needs the store.
func small() Root {
	base := tree{}
	base.dir("/proc", 0o755)
	base.dir("/dev", 0o755)
	return Root{base: base, guest: guest}
}

// in runs a command in a root, with the machine's /dev and a /proc, as targets
// give them: the linker's $ORIGIN needs the one, perl the other.
func in(t *testing.T, r Root, argv ...string) (string, error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test mounts and chroots: run it as root")
	}
	const script = `root=$1; shift; mount --rbind /dev "$root/dev"; mount --bind /proc "$root/proc"; exec /usr/sbin/chroot "$root" "$@"`
	c := exec.Command("/bin/sh", append([]string{"-ec", script, "sh", r.Rootfs}, argv...)...)
	c.Env, c.Dir = []string{"PATH=" + searchPath}, "/"
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := c.CombinedOutput()
	return string(out), err
}

func TestWorkbench(t *testing.T) {
	state := t.TempDir()
	r, err := NewStore(state).Workbench(t.Context(), guest)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, tool := range r.Tools {
		if tool.Path == "" {
			t.Fatalf("%s is not installed: apt-get install %s", tool.Name, tool.Package)
		}
	}
	out, err := in(t, r, "/bin/sh", "-c", "iperf3 --version && /.tare/mark true && id -un && ls /tmp")
	if err != nil || !strings.HasPrefix(out, "iperf 3.") || !strings.HasSuffix(out, "root\n") {
		t.Errorf("%v: %s", err, out)
	}
	img, err := readBack(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unpack(t.Context(), img, t.TempDir()); err != nil { // checks digests
		t.Errorf("the layout cannot be unpacked: %v", err)
	}
	if err := os.Remove(filepath.Join(state, "images", "lock")); err != nil {
		t.Fatal(err)
	}
	cached, err := NewStore(state).Workbench(t.Context(), guest)
	if err != nil || cached.Digest != r.Digest {
		t.Errorf("from the cache: %s, %v", cached.Digest, err)
	}
	if _, err := os.Stat(filepath.Join(state, "images", "lock")); !notExist(err) {
		t.Error("nothing had changed, and the image was made again")
	}
	again, err := NewStore(t.TempDir()).Workbench(t.Context(), guest)
	if err != nil || again.Digest != r.Digest {
		t.Errorf("another store gives %s, not %s: %v", again.Digest, r.Digest, err)
	}
	other, err := NewStore(state).Workbench(t.Context(), map[string][]byte{"/.tare/mark": []byte("x")})
	if err != nil || other.Digest == r.Digest {
		t.Errorf("another guest binary gives the same digest %s: %v", other.Digest, err)
	}
}

func readBack(r Root) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(r.Layout)
	if err != nil {
		return nil, err
	}
	hash, err := v1.NewHash(r.Digest)
	if err != nil {
		return nil, err
	}
	return index.Image(hash)
}

// Processes that make the same image at once get the same one, and leave
// nothing else.
func TestConcurrentStores(t *testing.T) {
	state := t.TempDir()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			r, err := NewStore(state).ForCommands(t.Context(), small(), []string{"/bin/sh"})
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := os.Stat(filepath.Join(r.Rootfs, "bin/sh")); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	left, err := os.ReadDir(filepath.Join(state, "images"))
	if err != nil || len(left) != 3 { // the image, the note of how it was made, the lock
		t.Errorf("the store holds %v, %v", left, err)
	}
}

func TestLeavingsAreSwept(t *testing.T) {
	s := NewStore(t.TempDir())
	dead := filepath.Join(s.dir, "tmp-dead", "whole")
	if err := os.MkdirAll(dead, 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := s.ForCommands(t.Context(), small(), []string{"sh"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead); !notExist(err) {
		t.Errorf("what a killed process left is still there: %v", err)
	}
	if n, err := s.Prune(t.Context(), 0, 0); n != 0 || err != nil {
		t.Errorf("an image in use was removed: %d, %v", n, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Prune(t.Context(), 0, 0); n != 1 || err != nil {
		t.Errorf("removed %d, %v; want 1", n, err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}

func TestCancelledWhileLocked(t *testing.T) {
	s := NewStore(t.TempDir())
	unlock, err := s.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.ForCommands(ctx, small(), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func write(t *testing.T, p, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(p, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestForCommands(t *testing.T) {
	dir := t.TempDir()
	script := write(t, filepath.Join(dir, "with blank.sh"), "#!/usr/bin/env -S bash -e\necho script $1 $BASH_VERSION\n", 0o755)
	r, err := NewStore(t.TempDir()).ForCommands(t.Context(), small(), []string{"ls", script, "perl"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, c := range []struct {
		argv []string
		want string
	}{
		{[]string{"ls", "/.tare"}, "mark"},
		{[]string{script, "ran"}, "script ran 5"},
		{[]string{"perl", "-MPOSIX", "-e", "print floor(3.7)"}, "3"},
	} {
		p, err := r.LookPath(c.argv[0], "")
		if err != nil {
			t.Fatal(err)
		}
		if c.argv[0] == "ls" {
			continue // the small bench has no guest files to list
		}
		out, err := in(t, r, append([]string{p}, c.argv[1:]...)...)
		if err != nil || !strings.Contains(out, c.want) {
			t.Errorf("%q: %v: %s", c.argv, err, out)
		}
	}
}

func TestOpens(t *testing.T) {
	script := write(t, filepath.Join(t.TempDir(), "tool"), "#!/usr/bin/env -S bash -e\ntrue\n", 0o755)
	r, err := NewStore(t.TempDir()).ForCommands(t.Context(), small(), []string{script})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	files, err := r.Opens(script, "/usr/bin:/bin")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{script, "/usr/bin/env", "/usr/bin/bash", "/ld-", "/libc.so", "/libtinfo.so", "/etc/ld.so.cache"} {
		if !slices.ContainsFunc(files, func(f string) bool { return strings.Contains(f, want) }) {
			t.Errorf("no %s among %q", want, files)
		}
	}
	if files, err := r.Opens("/no/such", ""); err != nil || !slices.Equal(files, []string{"/no/such"}) {
		t.Errorf("a command that is missing: %q, %v", files, err)
	}
}

// A library that only DT_RUNPATH with $ORIGIN leads to, and one that only
// ld.so.conf would: both are found, and the program runs in the root.
func TestClosureFollowsRunpath(t *testing.T) {
	compiler, err := exec.LookPath("cc")
	if err != nil {
		if compiler, err = exec.LookPath("clang"); err != nil {
			t.Fatal("no C compiler: apt-get install gcc")
		}
	}
	dir := t.TempDir()
	build := func(args ...string) {
		c := exec.Command(compiler, args...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "lib/deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "inner.c"), "int inner(void){return 40;}", 0o644)
	write(t, filepath.Join(dir, "outer.c"), "int inner(void); int outer(void){return inner()+2;}", 0o644)
	write(t, filepath.Join(dir, "main.c"), "int outer(void); int main(void){return outer();}", 0o644)
	build("-shared", "-fPIC", "-o", "lib/deep/libinner.so.1.0", "-Wl,-soname,libinner.so.1", "inner.c")
	if err := os.Symlink("libinner.so.1.0", filepath.Join(dir, "lib/deep/libinner.so.1")); err != nil {
		t.Fatal(err)
	}
	build("-shared", "-fPIC", "-o", "lib/libouter.so", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/deep", "outer.c", "lib/deep/libinner.so.1")
	build("-o", "bin/prog", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/../lib", "-Wl,--allow-shlib-undefined", "main.c", "-Llib", "-louter")
	prog := filepath.Join(dir, "bin/prog")
	s := NewStore(t.TempDir())
	r, err := s.ForCommands(t.Context(), small(), []string{prog})
	if err != nil {
		t.Fatal(err)
	}
	out, err := in(t, r, prog)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 42 {
		t.Errorf("%v: %s", err, out)
	}
	if err := os.Remove(filepath.Join(dir, "lib/deep/libinner.so.1")); err != nil {
		t.Fatal(err)
	}
	_, err = s.ForCommands(t.Context(), small(), []string{prog})
	if err == nil || !strings.Contains(err.Error(), "libouter.so needs the library libinner.so.1") {
		t.Errorf("a missing library: %v", err)
	}
}

// What env(1) starts is found as env finds it, its options aside.
func TestEnvCommand(t *testing.T) {
	for args, want := range map[string]string{
		"python3":                           "python3",
		"/usr/bin/python3":                  "/usr/bin/python3",
		"python3 -u":                        "python3 -u", // no -S: one name with a blank
		"-S python3 -u":                     "python3",
		"-Spython3 -u":                      "python3",
		"-S\tpython3\t-u":                   "python3",
		"-vS python3 -u":                    "python3",
		"-iS A=1 B=S python3":               "python3",
		"-S -u FOO python3":                 "python3",
		"-S -uFOO -i python3":               "python3",
		"-S -iu FOO python3":                "python3",
		"-S -C /tmp --unset FOO python3 -C": "python3",
		"-S --chdir=/tmp -- python3":        "python3",
		"--split-string=python3 -u":         "python3",
		"--split-string=-v A=1 python3":     "python3",
		"-i":                                "",
		"-uS":                               "",
		"A=1":                               "",
		"":                                  "",
	} {
		if got := envCommand("/usr/bin/env", args); got != want {
			t.Errorf("%q: got %q, want %q", args, got, want)
		}
	}
	if got := envCommand("/bin/sh", "python3"); got != "" {
		t.Errorf("of sh: %q", got)
	}
}

// A program's libraries are those that its section headers tell, where it has some.
func TestLibrariesWithoutSectionHeaders(t *testing.T) {
	for _, name := range []string{"bash", "fio", "sysbench"} {
		p, err := lookPath(name, searchPath)
		if err != nil {
			t.Fatal(err)
		}
		f, err := elf.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		want, err := f.ImportedLibraries()
		if err != nil {
			t.Fatal(err)
		}
		stripped, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if f.Class != elf.ELFCLASS64 {
			t.Fatalf("%s has %s: this test knows the header of 64 bits", p, f.Class)
		}
		clear(stripped[40:48]) // e_shoff
		clear(stripped[60:64]) // e_shnum, e_shstrndx
		file := filepath.Join(t.TempDir(), name)
		write(t, file, string(stripped), 0o755)
		o, err := readObject(file)
		if err != nil || len(want) == 0 || !slices.Equal(o.needed, want) {
			t.Errorf("%s: got %q, %v, want %q", name, o.needed, err, want)
		}
		if name != "bash" {
			continue
		}
		r, err := NewStore(t.TempDir()).ForCommands(t.Context(), small(), []string{file})
		if err != nil {
			t.Fatal(err)
		}
		if out, err := in(t, r, file, "-c", "echo runs"); err != nil || out != "runs\n" {
			t.Errorf("%v: %s", err, out)
		}
	}
}

func TestCommandsThatCannotRun(t *testing.T) {
	dir := t.TempDir()
	at := func(n string) string { return filepath.Join(dir, n) }
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	foreign := slices.Clone(self)
	binary.LittleEndian.PutUint16(foreign[18:], 258) // e_machine: EM_LOONGARCH
	write(t, at("foreign"), string(foreign), 0o755)
	for name, kind := range map[string]uint16{"object": 1, "core": 4} { // e_type: ET_REL, ET_CORE
		other := slices.Clone(self)
		binary.LittleEndian.PutUint16(other[16:], kind)
		write(t, at(name), string(other), 0o755)
	}
	write(t, at("windows"), "#!/bin/sh\r\n", 0o755)
	write(t, at("windowsenv"), "#!/usr/bin/env bash\r\n", 0o755)
	write(t, at("envpath"), "#!/usr/bin/env /no/such/python\n", 0o755)
	write(t, at("envwords"), "#!/usr/bin/env bash -e\n", 0o755)
	write(t, at("cut"), "\x7fELF\x02\x01\x01", 0o755)
	write(t, at("plain"), "echo hello\n", 0o755)
	write(t, at("private"), "#!/bin/sh\n", 0o644)
	write(t, at("lost"), "#!/no/such/interpreter\n", 0o755)
	write(t, at("envlost"), "#!/usr/bin/env pyhton-none\n", 0o755)
	write(t, at("relative"), "#!sh\n", 0o755)
	write(t, at("long"), "#!/bin/"+strings.Repeat("x", 300)+"\n", 0o755)
	write(t, at("loop"), "#!"+at("loop")+"\n", 0o755)
	write(t, at("overforeign"), "#!"+at("foreign")+"\n", 0o755)
	for argv0, says := range map[string]string{
		"":                   "empty",
		"sysbenhc":           `"sysbenhc" is not in PATH (did you mean sysbench?)`,
		at("nothing"):        "does not exist",
		at("plian"):          "did you mean plain?",
		dir:                  "is a directory",
		at("private"):        "not executable (chmod +x",
		at("foreign"):        "is a program for loongarch64, and this machine is",
		at("overforeign"):    "is a program for loongarch64",
		at("cut"):            "cut",
		at("plain"):          "neither a program (ELF) nor a script",
		at("lost"):           "whose interpreter /no/such/interpreter does not exist",
		at("envlost"):        "whose interpreter pyhton-none is not in PATH",
		at("object"):         "object is no program, but an object file or a core dump (ET_REL)",
		at("core"):           "core is no program, but an object file or a core dump (ET_CORE)",
		at("windows"):        "the line end of Windows",
		at("windowsenv"):     "the line end of Windows",
		at("envpath"):        "whose interpreter /no/such/python does not exist",
		at("envwords"):       "whose interpreter bash -e is not in PATH",
		at("relative"):       "not an absolute path",
		at("long"):           "longer than the 256 bytes",
		at("loop"):           "each other's interpreter",
		"/proc/self/exe":     "mounts its own",
		"/dev/null":          "not a file that can be run",
		"/dev/shm/../../etc": "is a directory",
	} {
		_, err := NewStore(t.TempDir()).ForCommands(t.Context(), small(), []string{argv0})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: error %v, want one with %q", argv0, err, says)
		}
	}
}

// archives of one image in every form that Import takes.
func forms(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	img := imageOf(t, []h{file("etc/who", "lower"), file("gone", "1")}, []h{file("etc/who", "upper"), file(".wh.gone", "")})
	at, err := layout.Write(filepath.Join(dir, "oci"), empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	other := imageOf(t, []h{file("etc/who", "foreign")})
	if other, err = mutate.ConfigFile(other, &v1.ConfigFile{Architecture: "sparc", OS: "linux", RootFS: v1.RootFS{Type: "layers"}}); err != nil {
		t.Fatal(err)
	}
	if err := at.AppendImage(other, layout.WithPlatform(v1.Platform{OS: "linux", Architecture: "sparc"}), layout.WithAnnotations(map[string]string{refName: "old"})); err != nil {
		t.Fatal(err)
	}
	if err := at.AppendImage(img, layout.WithAnnotations(map[string]string{refName: "new"})); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("example.com/it:latest")
	if err != nil {
		t.Fatal(err)
	}
	docker := filepath.Join(dir, "docker.tar")
	if err := tarball.WriteToFile(docker, tag, img); err != nil {
		t.Fatal(err)
	}
	sh := func(script string) {
		c := exec.Command("sh", "-ec", script)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	sh("tar -C oci -cf oci.tar . && gzip -k oci.tar docker.tar")
	return map[string]string{
		"layout": filepath.Join(dir, "oci"), "layout by tag": filepath.Join(dir, "oci") + ":new",
		"OCI tar": filepath.Join(dir, "oci.tar"), "OCI tar.gz": filepath.Join(dir, "oci.tar.gz"),
		"docker": docker, "docker gz": docker + ".gz", "docker by tag": docker + ":example.com/it:latest",
	}
}

func TestImport(t *testing.T) {
	for form, ref := range forms(t) {
		t.Run(form, func(t *testing.T) {
			r, err := NewStore(t.TempDir()).Import(t.Context(), ref, small())
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			got := listing(t, r.Rootfs)
			if got["etc/who"] != "upper" || got["gone"] != "" || got[".tare/mark"] == "" || len(got) != 4 {
				t.Errorf("the root holds %v", got)
			}
		})
	}
}

func TestImportRefuses(t *testing.T) {
	all := forms(t)
	dir := t.TempDir()
	damaged := filepath.Join(dir, "damaged")
	if err := os.CopyFS(damaged, os.DirFS(all["layout"])); err != nil {
		t.Fatal(err)
	}
	blobs, err := filepath.Glob(filepath.Join(damaged, "blobs/sha256/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blobs { // the upper layer says "upper": change it
		text, err := os.ReadFile(b)
		if err != nil {
			t.Fatal(err)
		}
		write(t, b, strings.Replace(string(text), "upper", "lower", 1), 0o644)
	}
	for ref, says := range map[string]string{
		filepath.Join(dir, "nothing"):     "tare pulls from no registry",
		dir:                               "no OCI image layout",
		write(t, dir+"/text", "x", 0o600): "no tar archive",
		write(t, dir+"/plain.tar", string(archiveOf(t, file("a", "1"))), 0o600): "neither oci-layout nor manifest.json",
		all["layout"] + ":newer": "there are: old, new",
		all["layout"] + ":old":   "there are: linux/sparc",
		damaged:                  "damaged",
	} {
		if _, err := NewStore(t.TempDir()).Import(t.Context(), ref, small()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v, want one with %q", ref, err, says)
		}
	}
}

func TestDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test mounts an overlay: run it as root")
	}
	user := filepath.Join(t.TempDir(), "with: odd, name")
	if err := os.MkdirAll(user+"/bin", 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, user+"/bin/tool", "#!/.tare/mark\n", 0o755)
	scratch := t.TempDir()
	s := NewStore(t.TempDir())
	r, err := s.Directory(t.Context(), user, small(), scratch)
	if err != nil {
		t.Fatal(err)
	}
	got := listing(t, r.Rootfs)
	if r.Rootfs != user && got[".tare/mark"] != string(guest["/.tare/mark"]) || got["bin/tool"] == "" {
		t.Errorf("%v, notes %q", got, r.Notes)
	}
	if r.Rootfs == user && len(r.Mounts) != 1 {
		t.Errorf("neither an overlay nor a mount: %+v", r)
	}
	if p, err := r.LookPath("tool", "/sbin:/bin"); p != "/bin/tool" || err != nil {
		t.Errorf("%q, %v", p, err)
	}
	again, err := s.Directory(t.Context(), user, small(), scratch)
	if err != nil || again.Digest != r.Digest {
		t.Errorf("the same tree: %s and %s, %v", r.Digest, again.Digest, err)
	}
	write(t, user+"/bin/tool2", "", 0o755)
	changed, err := s.Directory(t.Context(), user, small(), scratch)
	if err != nil || changed.Digest == r.Digest {
		t.Errorf("a changed tree has the same digest: %v", err)
	}
	for _, r := range []Root{r, again, changed} {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := listing(t, scratch); len(got) != 0 {
		t.Errorf("left in the scratch directory: %v", got)
	}
	if got := listing(t, user); len(got) != 3 {
		t.Errorf("the user's tree was written to: %v", got)
	}
	if _, err := s.Directory(t.Context(), "/", small(), scratch); err == nil || !strings.Contains(err.Error(), "own root") {
		t.Errorf("the machine's own root: %v", err)
	}
	if _, err := s.Directory(t.Context(), user+"/bin/tool", small(), scratch); err == nil || !strings.Contains(err.Error(), "is a file, not a directory") {
		t.Errorf("a file as rootfs: %v", err)
	}
}

// A state directory's name is no pattern: on a2ee321 a store in /x/[ab] deleted in /x/a.
func TestStoreInBrackets(t *testing.T) {
	top := t.TempDir()
	for _, name := range []string{"a", "[ab]"} {
		if err := os.MkdirAll(filepath.Join(top, name, "images", "tmp-1"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := NewStore(filepath.Join(top, "[ab]")).Prune(t.Context(), 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(top, "a", "images", "tmp-1")); err != nil {
		t.Errorf("it deleted in another directory: %v", err)
	}
	if _, err := os.Stat(filepath.Join(top, "[ab]", "images", "tmp-1")); err == nil {
		t.Error("it did not delete in its own")
	}
}
