package image

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
)

// Opens are the files of the root that the kernel and the dynamic linker look up
// when the command starts, itself included, as absolute paths: what is to be
// looked up once before a clock starts. It is a hint, and no proof that the
// command runs: libraries are sought in the linker's usual directories, and what
// is missing is passed over. A program that names more than limit.Program is refused.
func (r Root) Opens(command, search string) ([]string, error) {
	root, err := os.OpenRoot(r.Rootfs)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	dirs := newLinker(nil).system
	files := []string{command}
	looked := map[string]bool{"": true} // names that were looked up
	dynamic := false
	for i := 0; i < len(files); i++ {
		needs, libraries := starts(root, files[i])
		for n, name := range slices.Concat(needs, libraries) {
			library := n >= len(needs)
			dynamic = dynamic || library
			if looked[name] {
				continue
			}
			looked[name] = true
			if err := limit.Program.CheckItems(len(looked)); err != nil {
				return nil, fmt.Errorf("%s: %w", command, err)
			}
			switch {
			case library:
				name = inDirs(root, dirs, name)
			case !strings.Contains(name, "/"): // what env(1) looks up
				name = inDirs(root, strings.Split(search, ":"), name)
			}
			files = appendNew(files, name)
		}
	}
	if dynamic { // ld.so(8) looks for both first
		files = append(files, "/etc/ld.so.preload", "/etc/ld.so.cache")
	}
	return files, nil
}

// Misses is the first file that a program of the root names as what it needs to start,
// its interpreter or a library, and the root has not; "" where it has all.
func (r Root) Misses(command string) (string, error) {
	root, err := os.OpenRoot(r.Rootfs)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if _, err := inRoot(root, command, nil); err != nil {
		return command, nil
	}
	dirs := newLinker(nil).system
	interpreters, libraries := starts(root, command)
	for _, name := range interpreters {
		if _, err := inRoot(root, name, nil); name != "" && err != nil {
			return name, nil
		}
	}
	for _, name := range libraries {
		if inDirs(root, dirs, name) == "" {
			return name, nil
		}
	}
	return "", nil
}

// cLibraryFile is the file of glibc, as programs name it.
const cLibraryFile = "libc.so.6"

// cLibraryName begins the line by which glibc identifies itself.
var cLibraryName = []byte("GNU C Library ")

// CLibrary is the root's GNU C library, as it calls itself: its distribution, release
// and version. "" where the root has none, or one that does not say it.
func (r Root) CLibrary() string {
	root, err := os.OpenRoot(r.Rootfs)
	if err != nil {
		return ""
	}
	defer root.Close()
	at, err := inRoot(root, inDirs(root, newLinker(nil).system, cLibraryFile), nil)
	if err != nil {
		return ""
	}
	data, err := sys.ReadForeignIn(root, at, limit.CLibrary)
	if err != nil {
		return ""
	}
	_, line, found := bytes.Cut(data, cLibraryName)
	line, _, ended := bytes.Cut(line[:min(len(line), 200)], []byte("\n"))
	if !found || !ended {
		return ""
	}
	return strings.TrimRight(string(cLibraryName)+string(line), ".")
}

// LoaderDigests are the SHA-256 of what runs a dynamic program of the root, its interpreter
// and the C library, by the name of the file. What the root has not is not among them.
func (r Root) LoaderDigests(program string) (map[string]string, error) {
	root, err := os.OpenRoot(r.Rootfs)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	files, libraries := starts(root, program)
	if slices.Contains(libraries, cLibraryFile) {
		files = append(files, inDirs(root, newLinker(nil).system, cLibraryFile))
	}
	digests := map[string]string{}
	for _, file := range files {
		if _, err := inRoot(root, file, nil); file == "" || err != nil {
			continue
		}
		if digests[path.Base(file)], err = r.ProgramDigest(file); err != nil {
			return nil, err
		}
	}
	return digests, nil
}

func appendNew(files []string, name string) []string {
	if name == "" || slices.Contains(files, name) {
		return files
	}
	return append(files, name)
}

// inDirs is the first of the directories' files of that name, "" for none.
func inDirs(root *os.Root, dirs []string, name string) string {
	for _, dir := range dirs {
		p := path.Join("/", dir, name)
		if _, err := inRoot(root, p, nil); err == nil {
			return p
		}
	}
	return ""
}

// starts are the programs and the libraries that a file names as what it needs
// to start.
func starts(root *os.Root, file string) (programs, libraries []string) {
	at, err := inRoot(root, file, nil)
	if err != nil {
		return nil, nil
	}
	f, err := sys.OpenForeignIn(root, at, limit.Limit{})
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	head := make([]byte, scriptLine)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil
	}
	if head = head[:n]; strings.HasPrefix(string(head), "#!") {
		interp, args, err := shebang(string(head))
		if err != nil {
			return nil, nil
		}
		return []string{interp, envCommand(interp, args)}, nil
	}
	e, err := sys.ProgramHeaders(f)
	if err != nil {
		return nil, nil
	}
	interp, err := interpreter(e)
	if err != nil {
		return nil, nil
	}
	names, err := dynamicNames(e)
	if err != nil {
		names = nil
	}
	return []string{interp}, names[elf.DT_NEEDED]
}
