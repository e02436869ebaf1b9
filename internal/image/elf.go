package image

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
)

// object is what the dynamic linker needs to know of one ELF file.
type object struct {
	path    string // as it was found, the symbolic links not followed
	kind    elf.Type
	class   elf.Class
	machine elf.Machine
	interp  string   // PT_INTERP; "" for a static program and for libraries
	needed  []string // DT_NEEDED
	rpath   []string // DT_RPATH, with $ORIGIN; nil where DT_RUNPATH is there too
	runpath []string // DT_RUNPATH
}

// readObject reads the headers of an ELF file; it never runs it.
func readObject(p string) (object, error) {
	file, err := os.Open(p)
	if err != nil {
		return object{}, err
	}
	defer file.Close()
	return objectOf(p, file)
}

// objectOf reads the headers of an ELF file that is to stand at a path.
func objectOf(p string, file io.ReaderAt) (object, error) {
	f, err := sys.ProgramHeaders(file)
	if err != nil {
		return object{}, fmt.Errorf("%s: %w", p, err)
	}
	o := object{path: p, kind: f.Type, class: f.Class, machine: f.Machine}
	if o.interp, err = interpreter(f); err != nil {
		return o, fmt.Errorf("%s: %w", p, err)
	}
	names, err := dynamicNames(f)
	if err != nil {
		return o, fmt.Errorf("%s: dynamic section: %w", p, err)
	}
	o.needed, o.rpath, o.runpath = names[elf.DT_NEEDED], splitPaths(names[elf.DT_RPATH]), splitPaths(names[elf.DT_RUNPATH])
	if o.runpath != nil {
		o.rpath = nil // ld.so(8): DT_RPATH counts only where DT_RUNPATH is not
	}
	return o, nil
}

// interpreter is the program header PT_INTERP's string.
func interpreter(f *elf.File) (string, error) {
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		if p.Filesz > 4096 { // PATH_MAX, as the kernel checks (fs/binfmt_elf.c)
			return "", errors.New("the name of its interpreter is longer than 4096 bytes")
		}
		b := make([]byte, p.Filesz)
		if _, err := p.ReadAt(b, 0); err != nil {
			return "", fmt.Errorf("interpreter: %w", err)
		}
		return strings.TrimRight(string(b), "\x00"), nil
	}
	return "", nil
}

// dynamicNames are the strings of the dynamic section, by their tags, found as the
// dynamic linker finds them, by the program headers: section headers may be stripped.
// A static program has none.
func dynamicNames(f *elf.File) (map[elf.DynTag][]string, error) {
	i := slices.IndexFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_DYNAMIC })
	if i < 0 {
		return nil, nil
	}
	section, err := limit.Program.ReadAll(f.Progs[i].Open())
	if err != nil {
		return nil, err
	}
	offsets, count := map[elf.DynTag][]uint64{}, 0
	for tag, value := range dynamicEntries(f, section) {
		if tag == elf.DT_STRTAB || slices.Contains(namingTags, tag) {
			count++
			offsets[tag] = append(offsets[tag], value)
		}
		if err := limit.Program.CheckItems(count); err != nil {
			return nil, err
		}
	}
	names := map[elf.DynTag][]string{}
	for _, tag := range namingTags {
		for _, offset := range offsets[tag] {
			if len(offsets[elf.DT_STRTAB]) != 1 {
				return nil, errors.New("it has no table of strings")
			}
			name, err := stringAt(f, offsets[elf.DT_STRTAB][0]+offset)
			if err != nil {
				return nil, err
			}
			names[tag] = append(names[tag], name)
		}
	}
	return names, nil
}

// namingTags are those of the strings that are read.
var namingTags = []elf.DynTag{elf.DT_NEEDED, elf.DT_RPATH, elf.DT_RUNPATH}

// dynamicEntries goes through the entries of a dynamic section up to DT_NULL.
func dynamicEntries(f *elf.File, section []byte) iter.Seq2[elf.DynTag, uint64] {
	word := 4
	if f.Class == elf.ELFCLASS64 {
		word = 8
	}
	number := func(b []byte) uint64 {
		if word == 4 {
			return uint64(f.ByteOrder.Uint32(b))
		}
		return f.ByteOrder.Uint64(b)
	}
	return func(yield func(elf.DynTag, uint64) bool) {
		for entry := range slices.Chunk(section, 2*word) {
			if len(entry) < 2*word {
				return
			}
			tag := elf.DynTag(number(entry))
			if tag == elf.DT_NULL || !yield(tag, number(entry[word:])) {
				return
			}
		}
	}
}

// stringAt is the string at an address of the loaded file.
func stringAt(f *elf.File, address uint64) (string, error) {
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || address < p.Vaddr || address-p.Vaddr >= p.Filesz {
			continue
		}
		b := make([]byte, 4096) // PATH_MAX
		n, err := p.ReadAt(b, int64(address-p.Vaddr))
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		name, _, ends := strings.Cut(string(b[:n]), "\x00")
		if !ends {
			return "", errors.New("one of its strings is longer than 4096 bytes, or has no end")
		}
		return name, nil
	}
	return "", fmt.Errorf("no segment of the file holds its string at %#x", address)
}

func splitPaths(lists []string) []string {
	var out []string
	for _, l := range lists {
		for _, p := range strings.Split(l, ":") {
			if p != "" {
				out = append(out, p)
			}
		}
	}
	return out
}

// linker finds libraries as ld.so(8) does, without its cache and without an
// environment, and puts them into a tree.
type linker struct {
	tree    tree
	system  []string          // directories of /etc/ld.so.conf and the built-in ones
	builtin []string          // the built-in ones alone
	done    map[string]string // name in DT_NEEDED -> path, for one program
}

func newLinker(t tree) *linker {
	builtin := []string{"/lib", "/usr/lib", "/lib64", "/usr/lib64", "/lib32", "/usr/lib32", "/libx32", "/usr/libx32"}
	for _, triplet := range multiarch() {
		builtin = append(builtin, path.Join("/lib", triplet), path.Join("/usr/lib", triplet))
	}
	conf := readLinkerConf("/etc/ld.so.conf", 0)
	return &linker{tree: t, system: append(conf, builtin...), builtin: builtin}
}

// multiarch are the directory names that Debian and its kin build into ld.so.
func multiarch() []string {
	return map[string][]string{
		"amd64":    {"x86_64-linux-gnu", "i386-linux-gnu"},
		"386":      {"i386-linux-gnu"},
		"arm64":    {"aarch64-linux-gnu", "arm-linux-gnueabihf"},
		"arm":      {"arm-linux-gnueabihf", "arm-linux-gnueabi"},
		"loong64":  {"loongarch64-linux-gnu"},
		"mips64le": {"mips64el-linux-gnuabi64"},
		"riscv64":  {"riscv64-linux-gnu"},
		"ppc64le":  {"powerpc64le-linux-gnu"},
		"s390x":    {"s390x-linux-gnu"},
	}[runtime.GOARCH]
}

// program puts a program's interpreter and all libraries that it needs into
// the tree. The program itself must be there already.
func (l *linker) program(o object) error {
	l.done = map[string]string{}
	if o.interp == "" && len(o.needed) == 0 {
		return nil
	}
	if o.interp != "" {
		if _, err := l.tree.host(o.interp); err != nil {
			return fmt.Errorf("%s: its interpreter %s is missing: %w", o.path, o.interp, err)
		}
	}
	if err := l.needs(o, nil); err != nil {
		return err
	}
	return l.extras()
}

// needs adds the libraries of one object; inherited are the DT_RPATHs of those
// that loaded it.
func (l *linker) needs(o object, inherited []string) error {
	chain := inherited
	if o.runpath == nil {
		chain = append(expand(o.rpath, o), inherited...)
	}
	for _, lib := range o.needed {
		if _, there := l.done[lib]; there {
			continue
		}
		found, err := l.find(lib, o, chain)
		if err != nil {
			return err
		}
		if err := l.add(lib, found, chain); err != nil {
			return err
		}
	}
	return nil
}

// add puts a found library and what it needs into the tree.
func (l *linker) add(lib string, found object, chain []string) error {
	l.done[lib] = found.path
	if _, err := l.tree.host(found.path); err != nil {
		return err
	}
	l.alias(lib, found.path)
	return l.needs(found, chain)
}

// alias makes a library that only /etc/ld.so.conf leads to findable without
// the linker's cache, which a root has not: a link in the C library's
// directory, which every ld.so searches.
func (l *linker) alias(lib, found string) {
	libc, ok := l.done["libc.so.6"]
	dir := path.Dir(found)
	if !ok || slices.Contains(l.builtin, dir) || !slices.Contains(l.system, dir) {
		return
	}
	real, err := l.tree.host(path.Dir(libc))
	if err != nil {
		return // libc.so.6 was found there a moment ago; the run will tell
	}
	l.tree.symlink(path.Join(real, lib), found)
}

// find looks a library up in the order of ld.so(8): DT_RPATH of the loaders,
// DT_RUNPATH of the object, the configured directories, the built-in ones. As
// there, a file for another machine is passed over.
func (l *linker) find(lib string, o object, chain []string) (object, error) {
	if strings.Contains(lib, "/") {
		p := expand([]string{lib}, o)[0]
		return readObject(p)
	}
	dirs := slices.Concat(chain, expand(o.runpath, o), muslDirs(o), l.system)
	for _, dir := range dirs {
		p := path.Join(dir, lib)
		found, err := readObject(p)
		if err != nil || found.class != o.class || found.machine != o.machine {
			continue
		}
		return found, nil
	}
	return object{}, fmt.Errorf("%s needs the library %s, which is in none of its search paths (%s): install the package that brings it", o.path, lib, strings.Join(slices.Compact(dirs), ", "))
}

// expand replaces the tokens of ld.so(8). $LIB stands for "lib" or "lib64":
// both are tried.
func expand(paths []string, o object) []string {
	origin := path.Dir(o.path)
	if real, err := realPath(o.path); err == nil && o.interp != "" {
		origin = path.Dir(real) // of a program the kernel tells the real path
	}
	var out []string
	for _, p := range paths {
		for _, lib := range []string{"lib", "lib64"} {
			e := strings.NewReplacer("${ORIGIN}", origin, "$ORIGIN", origin, "${LIB}", lib, "$LIB", lib,
				"${PLATFORM}", o.platform(), "$PLATFORM", o.platform()).Replace(p)
			if !slices.Contains(out, e) {
				out = append(out, e)
			}
		}
	}
	return out
}

func (o object) platform() string { return machineName(o.machine, o.class) }

// muslDirs are where musl's linker looks: its path file, or its built-in list
// (musl, ldso/dynlink.c).
func muslDirs(o object) []string {
	base := path.Base(o.interp)
	if !strings.HasPrefix(base, "ld-musl-") {
		return nil
	}
	conf := "/etc/" + strings.TrimSuffix(base, ".so.1") + ".path"
	if b, err := os.ReadFile(conf); err == nil {
		return strings.FieldsFunc(string(b), func(r rune) bool { return r == ':' || r == '\n' })
	}
	return []string{"/lib", "/usr/local/lib", "/usr/lib"}
}

// glibcExtras are libraries that glibc opens by name while it runs: name
// services before 2.34, and the unwinder that pthread_cancel needs.
var glibcExtras = []string{"libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2", "libgcc_s.so.1"}

// extras adds glibc's late libraries, where this machine has them.
func (l *linker) extras() error {
	libc, ok := l.done["libc.so.6"]
	if !ok {
		return nil
	}
	c, err := readObject(libc)
	if err != nil {
		return err
	}
	for _, lib := range glibcExtras {
		if _, there := l.done[lib]; there {
			continue
		}
		found, err := l.find(lib, c, nil)
		if err != nil {
			continue // a machine without it runs the program without it, too
		}
		if err := l.add(lib, found, nil); err != nil {
			return err
		}
	}
	return nil
}

// nativeMachines are what this machine's kernel runs without an emulator.
var nativeMachines = map[string][]elf.Machine{
	"amd64":    {elf.EM_X86_64, elf.EM_386},
	"386":      {elf.EM_386},
	"arm64":    {elf.EM_AARCH64, elf.EM_ARM},
	"arm":      {elf.EM_ARM},
	"loong64":  {elf.EM_LOONGARCH},
	"mips64le": {elf.EM_MIPS},
	"riscv64":  {elf.EM_RISCV},
	"ppc64le":  {elf.EM_PPC64},
	"s390x":    {elf.EM_S390},
}

// machineName is a machine as uname -m calls it.
func machineName(m elf.Machine, c elf.Class) string {
	names := map[elf.Machine]string{
		elf.EM_X86_64: "x86_64", elf.EM_386: "i686", elf.EM_AARCH64: "aarch64", elf.EM_ARM: "arm",
		elf.EM_LOONGARCH: "loongarch64", elf.EM_RISCV: "riscv64", elf.EM_PPC64: "ppc64", elf.EM_S390: "s390x",
	}
	if m == elf.EM_MIPS {
		if c == elf.ELFCLASS64 {
			return "mips64"
		}
		return "mips"
	}
	if n, ok := names[m]; ok {
		return n
	}
	return m.String()
}

// checkMachine refuses what is no program, and a program for another architecture,
// and names both.
func checkMachine(o object) error {
	if o.kind != elf.ET_EXEC && o.kind != elf.ET_DYN {
		return fmt.Errorf("%s is no program, but an object file or a core dump (%s)", o.path, o.kind)
	}
	native := nativeMachines[runtime.GOARCH]
	if len(native) == 0 || slices.Contains(native, o.machine) {
		return nil
	}
	return fmt.Errorf("%s is a program for %s, and this machine is %s", o.path, machineName(o.machine, o.class), machineName(native[0], elf.ELFCLASS64))
}

// isELF reports whether a file begins with the ELF magic.
func isELF(head []byte) bool { return strings.HasPrefix(string(head), elf.ELFMAG) }

// notExist reports whether err says that a path is not there.
func notExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
