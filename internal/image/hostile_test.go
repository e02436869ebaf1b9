package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
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
	manifest, err := json.Marshal([]load{{Config: "config.json", Layers: []string{"layer.tar"}}})
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

// TestDocumentsOfManyParts: a document that is short, and would take a gigabyte once it is
// decoded, is refused before that.
func TestDocumentsOfManyParts(t *testing.T) {
	index, manifest, config := documents()
	many := "[" + strings.Repeat("{},", 1<<20) + "{}]"
	for name, ref := range map[string]string{
		"an index":   layoutOf(t, []byte(`{"manifests":`+many+`}`), []byte(manifest), []byte(config)),
		"a manifest": layoutOf(t, []byte(index), []byte(`{"layers":`+many+`}`), []byte(config)),
		"a config":   layoutOf(t, []byte(index), []byte(manifest), []byte(`{"history":`+many+`}`)),
		"the manifest of docker save": write(t, filepath.Join(t.TempDir(), "image.tar"),
			string(archiveOf(t, file("manifest.json", many))), 0o600),
		"a config of docker save": write(t, filepath.Join(t.TempDir(), "image.tar"),
			string(archiveOf(t, file("manifest.json", `[{"Config":"config.json"}]`), file("config.json", `{"history":`+many+`}`))), 0o600),
	} {
		t.Run(name, func(t *testing.T) { refused(t, ref, "JSON of an image has more than 16384 entries") })
	}
	// What may be in one stays within the row's memory.
	most := "[" + strings.Repeat("{},", limit.ImageJSON.Items-3) + "{}]"
	for name, decode := range map[string]func() error{
		"an index": func() error {
			_, err := v1.ParseIndexManifest(strings.NewReader(`{"manifests":` + most + `}`))
			return err
		},
		"a config": func() error { _, err := v1.ParseConfigFile(strings.NewReader(`{"history":` + most + `}`)); return err },
	} {
		if err := limit.ImageJSON.CheckAlloc(func() {
			if err := decode(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestArchiveThatClaims: an entry that claims more than the disk has free is refused by its
// header, and the archive that has it first is still told from a disk. At 36291883 what it
// held was read, under the store's lock, where no signal ended it.
func TestArchiveThatClaims(t *testing.T) {
	var header, packed bytes.Buffer
	if err := tar.NewWriter(&header).WriteHeader(&tar.Header{Name: "x", Typeflag: tar.TypeReg, Size: 1 << 60}); err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(header.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	ref := write(t, filepath.Join(t.TempDir(), "image.tar.gz"), packed.String(), 0o600)
	if !IsImage(ref) {
		t.Error("an archive is taken for a disk")
	}
	if _, err := NewStore(t.TempDir()).Import(t.Context(), ref, small()); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("got %v, want that it does not fit", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := NewStore(t.TempDir()).Import(ended, ref, small()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	disk := write(t, filepath.Join(t.TempDir(), "disk"), strings.Repeat("\x00", 1<<16), 0o600)
	if IsImage(disk) {
		t.Error("a disk is taken for an archive")
	}
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

// program is a 64-bit ELF file with one dynamic section, whose entries are needed names
// times and name libraries lib0, lib1, ... of equal length.
func program(t testing.TB, needed int) []byte {
	t.Helper()
	const width = 12
	var names, entries, out bytes.Buffer
	put := func(to *bytes.Buffer, v any) {
		if err := binary.Write(to, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	names.WriteByte(0)
	for i := range needed {
		fmt.Fprintf(&names, "lib%08d\x00", i)
		put(&entries, elf.Dyn64{Tag: int64(elf.DT_NEEDED), Val: uint64(1 + i*width)})
	}
	const first = 64 + 2*56
	dynamic := uint64(entries.Len() + 2*16)
	size := first + dynamic + uint64(names.Len())
	put(&entries, elf.Dyn64{Tag: int64(elf.DT_STRTAB), Val: first + dynamic})
	put(&entries, elf.Dyn64{})
	put(&out, elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1,
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 2})
	put(&out, elf.Prog64{Type: uint32(elf.PT_LOAD), Filesz: size, Memsz: size, Align: 1})
	put(&out, elf.Prog64{Type: uint32(elf.PT_DYNAMIC), Off: first, Filesz: dynamic, Memsz: dynamic, Align: 1})
	out.Write(entries.Bytes())
	out.Write(names.Bytes())
	return out.Bytes()
}

// TestHostilePrograms: on a2ee321 a program of an image with 30,000 DT_NEEDED names
// stalled planning by 1.3 s each time, and section headers of gigabytes were read into
// memory.
func TestHostilePrograms(t *testing.T) {
	for needed, want := range map[int]bool{0: true, 3: true, limit.Program.Items - 1: true, limit.Program.Items: false, 30_000: false} {
		file := write(t, filepath.Join(t.TempDir(), "program"), string(program(t, needed)), 0o755)
		over := limit.Program.CheckAlloc(func() {
			o, err := readObject(file)
			if (err == nil) != want || err == nil && len(o.needed) != needed {
				t.Errorf("%d names: %d were read, %v", needed, len(o.needed), err)
			}
			if !want && !errors.As(err, new(*limit.Error)) {
				t.Errorf("%d names: %v", needed, err)
			}
		})
		if over != nil {
			t.Errorf("%d names: %v", needed, over)
		}
	}
	// A table of section names of 256 MiB, in a file that takes no room on the disk.
	sparse := program(t, 1)
	binary.LittleEndian.PutUint64(sparse[40:], 1<<20) // e_shoff
	binary.LittleEndian.PutUint16(sparse[58:], 64)    // e_shentsize
	binary.LittleEndian.PutUint16(sparse[60:], 2)     // e_shnum
	binary.LittleEndian.PutUint16(sparse[62:], 1)     // e_shstrndx
	file := write(t, filepath.Join(t.TempDir(), "sparse"), string(sparse), 0o755)
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	var section bytes.Buffer
	if err := binary.Write(&section, binary.LittleEndian, [2]elf.Section64{1: {Type: uint32(elf.SHT_STRTAB), Off: 2 << 20, Size: 256 << 20}}); err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(section.Bytes(), 1<<20)
	if err := errors.Join(err, f.Truncate(258<<20), f.Close()); err != nil {
		t.Fatal(err)
	}
	if over := limit.Program.CheckAlloc(func() {
		if o, err := readObject(file); err != nil || len(o.needed) != 1 {
			t.Errorf("%q, %v", o.needed, err)
		}
	}); over != nil {
		t.Error(over)
	}
}

// TestHostileOpens: libraries that name each other's libraries end at the limit.
func TestHostileOpens(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	names := func(prefix string) string { // other names in each file
		return strings.ReplaceAll(string(program(t, 600)), "lib00", prefix)
	}
	write(t, filepath.Join(dir, "program"), names("lib00"), 0o755)
	write(t, filepath.Join(dir, "lib", "lib00000000"), names("lib01"), 0o755)
	r := Root{Rootfs: dir}
	if _, err := r.Opens("/program", ""); !errors.As(err, new(*limit.Error)) {
		t.Errorf("1,200 names of two files: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "lib", "lib00000000")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Opens("/program", ""); err != nil {
		t.Errorf("600 names: %v", err)
	}
}

// FuzzProgram: no file makes the reader of a program's headers panic or take more memory
// than its limit.
func FuzzProgram(f *testing.F) {
	f.Add(program(f, 3))
	f.Add(program(f, limit.Program.Items))
	f.Fuzz(func(t *testing.T, data []byte) {
		over := limit.Program.CheckAlloc(func() {
			e, err := sys.ProgramHeaders(bytes.NewReader(data))
			if err != nil {
				return
			}
			if name, err := interpreter(e); err == nil && len(name) > 4096 {
				t.Errorf("an interpreter of %d bytes", len(name))
			}
			if names, err := dynamicNames(e); err == nil && len(names[elf.DT_NEEDED]) > limit.Program.Items {
				t.Errorf("%d names", len(names[elf.DT_NEEDED]))
			}
		})
		if over != nil {
			t.Fatal(over)
		}
	})
}

// documents are those of a layout for layoutOf.
func documents() (index, manifest, config string) {
	index = fmt.Sprintf(`{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":1,"digest":"sha256:MANIFEST","platform":{"os":"linux","architecture":%q},"annotations":{"org.opencontainers.image.ref.name":"a"}}]}`, runtime.GOARCH)
	manifest = `{"schemaVersion":2,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","size":1,"digest":"sha256:CONFIG"},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","size":1,"digest":"sha256:CONFIG"}]}`
	config = `{"architecture":"amd64","os":"linux","config":{"Cmd":["sh"],"Env":["A=b"]},"rootfs":{"type":"layers","diff_ids":["sha256:0000000000000000000000000000000000000000000000000000000000000000"]}}`
	return index, manifest, config
}

// layoutOf is an OCI layout of three documents. MANIFEST and CONFIG stand for the digests of
// the others.
func layoutOf(t *testing.T, index, manifest, config []byte) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "blobs/sha256"), 0o700); err != nil {
		t.Fatal(err)
	}
	blob := func(data []byte) []byte {
		sum := sha256.Sum256(data)
		digest := hex.EncodeToString(sum[:])
		write(t, filepath.Join(dir, "blobs/sha256", digest), string(data), 0o600)
		return []byte(digest)
	}
	manifest = bytes.ReplaceAll(manifest, []byte("CONFIG"), blob(config))
	index = bytes.ReplaceAll(index, []byte("MANIFEST"), blob(manifest))
	write(t, filepath.Join(dir, "index.json"), string(index), 0o600)
	return dir
}

// FuzzLayout: whatever the documents of an OCI layout say, an image is opened or refused
// in little memory.
func FuzzLayout(f *testing.F) {
	index, manifest, config := documents()
	f.Add([]byte(index), []byte(manifest), []byte(config), "")
	f.Add([]byte(index), []byte(manifest), []byte(config), "a")
	f.Add([]byte(`{"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"sha256:MANIFEST"}]}`), []byte(index), []byte(config), "")
	f.Fuzz(func(t *testing.T, index, manifest, config []byte, tag string) {
		dir := layoutOf(t, index, manifest, config)
		opened(t, dir, func(from foreign) (v1.Image, error) { return from.layout(tag) })
	})
}

// FuzzDockerArchive is the same of the documents of docker save.
func FuzzDockerArchive(f *testing.F) {
	config := `{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":["sha256:0000000000000000000000000000000000000000000000000000000000000000"]}}`
	f.Add([]byte(`[{"Config":"config.json","RepoTags":["a:b"],"Layers":["layer.tar"]}]`), []byte(config), "")
	f.Add([]byte(`[{"Config":"config.json","RepoTags":["a:b"],"Layers":["layer.tar"]},{"Config":"../x"}]`), []byte(config), "a:b")
	f.Fuzz(func(t *testing.T, manifest, config []byte, tag string) {
		dir := t.TempDir()
		for name, data := range map[string][]byte{"manifest.json": manifest, "config.json": config, "layer.tar": manifest} {
			write(t, filepath.Join(dir, name), string(data), 0o600)
		}
		opened(t, dir, func(from foreign) (v1.Image, error) { return from.docker(tag) })
	})
}

// opened opens an image and looks at all that its documents say.
func opened(t *testing.T, dir string, open func(foreign) (v1.Image, error)) {
	t.Helper()
	from, err := openForeign(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer from.close()
	over := limit.ImageDocument.CheckAlloc(func() {
		img, err := open(from)
		if err != nil || platformFits(img) != nil {
			return
		}
		layers, err := img.Layers()
		if err != nil {
			return
		}
		for _, l := range layers {
			if r, err := l.Uncompressed(); err == nil {
				r.Close()
			}
		}
	})
	if over != nil {
		t.Fatal(over)
	}
}
