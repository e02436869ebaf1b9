package ebpf

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/sys"
)

// userStacks turns the stacks of programs into a profile's. Their frames name
// files by build id, which outlives the process.
type userStacks struct {
	stacks   *ebpf.Map
	profile  *profile.Profile
	at       map[uint64]int
	programs *programs
}

// unknown is a frame of which not even the file is known.
const unknown = "unknown"

// inFile is the status of a frame whose file is known (BPF_STACK_BUILD_ID_VALID).
const inFile = 1

// of is the profile's index of a stack; -1 for one that was lost or never was.
func (t *userStacks) of(key uint64) (int, error) {
	if key == 0 {
		return -1, nil
	}
	if i, known := t.at[key]; known {
		return i, nil
	}
	var s stacksUserStack
	if err := t.stacks.Lookup(key, &s); errors.Is(err, ebpf.ErrKeyNotExist) {
		return -1, nil
	} else if err != nil {
		return -1, fmt.Errorf("stack: %w", err)
	}
	var names []string
	for i, f := range s.Frames {
		if f.At == 0 {
			break
		}
		name := unknown
		if f.Status == inFile {
			name = t.programs.function(buildID(f.Id), f.At-uint64(min(i, 1))) // callers' are return addresses
		}
		names = appendFrame(names, name)
	}
	i := len(t.profile.Stacks)
	t.profile.Stacks = append(t.profile.Stacks, names)
	t.at[key] = i
	return i, nil
}

// appendFrame adds a frame. Those of a file without symbols are one.
func appendFrame(names []string, name string) []string {
	if len(names) > 0 && name == names[len(names)-1] {
		return names
	}
	return append(names, name)
}

// buildID is what a linker writes into a file to tell it from all others.
type buildID [20]byte

// programs are the files with a build id below a root and in the host's places.
type programs struct {
	root   string
	search sync.Once
	files  map[buildID]string
	opened map[buildID]*functions
}

// hostPlaces are where a host's programs and libraries are, and those that run.
var hostPlaces = []string{"/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/usr/libexec", "/usr/local", "/proc/[0-9]*/exe"}

// mostFiles bounds the search below one root.
const mostFiles = 100_000

// searched holds the programs of each root: a search is not made for each trial.
var searched sync.Map

func programsBelow(root string) *programs {
	p, _ := searched.LoadOrStore(root, &programs{root: root, files: map[buildID]string{}, opened: map[buildID]*functions{}})
	return p.(*programs)
}

// function names the function of the file id that lies at an offset; the file
// where it has no such symbol.
func (p *programs) function(id buildID, offset uint64) string {
	p.search.Do(p.find)
	f := p.opened[id]
	if f == nil {
		f = readFunctions(p.files[id])
		p.opened[id] = f
	}
	return f.at(offset)
}

// find lists the files with a build id. What cannot be read is not named later,
// which is all that can be done about it.
func (p *programs) find() {
	var places []string
	for _, pattern := range hostPlaces {
		found, _ := filepath.Glob(pattern) // the patterns are well formed
		places = append(places, found...)
	}
	if p.root != "" {
		places = append(places, p.root)
	}
	for _, place := range places {
		left := mostFiles
		_ = filepath.WalkDir(place, func(path string, e fs.DirEntry, err error) error {
			if left--; left == 0 {
				return filepath.SkipAll
			}
			if err != nil {
				return nil //nolint:nilerr // see above
			}
			if path != place && !e.Type().IsRegular() {
				return nil
			}
			if id, ok := idOf(path); ok {
				p.files[id] = path
			}
			return nil
		})
	}
}

// idOf reads a file's build id.
func idOf(path string) (id buildID, ok bool) {
	f, err := sys.OpenGiven(path, limit.Limit{})
	if err != nil {
		return id, false
	}
	defer f.Close()
	var magic [4]byte
	if _, err := f.ReadAt(magic[:], 0); err != nil || string(magic[:]) != elf.ELFMAG {
		return id, false
	}
	e, err := sys.ProgramHeaders(f)
	if err != nil {
		return id, false
	}
	for _, segment := range e.Progs {
		if segment.Type != elf.PT_NOTE || segment.Filesz > 1<<16 {
			continue
		}
		notes, err := io.ReadAll(segment.Open())
		if err != nil {
			return id, false
		}
		if found, ok := idIn(notes, e.ByteOrder); ok {
			return found, true
		}
	}
	return id, false
}

// idIn finds the build id among notes: each is three words (the lengths of name
// and content, the type), then both, each filled up to a word.
func idIn(notes []byte, order binary.ByteOrder) (id buildID, ok bool) {
	const words, idType = 12, 3 // NT_GNU_BUILD_ID
	padded := func(n uint32) int { return int(n+3) &^ 3 }
	for len(notes) >= words {
		name, content := order.Uint32(notes), order.Uint32(notes[4:])
		end := words + padded(name) + padded(content)
		if name > 1<<16 || content > 1<<16 || end > len(notes) {
			return id, false
		}
		if order.Uint32(notes[8:]) == idType && bytes.Equal(notes[words:words+int(name)], []byte("GNU\x00")) && content <= uint32(len(id)) {
			copy(id[:], notes[words+padded(name):][:content]) // shorter ones are filled up, as by the kernel
			return id, true
		}
		notes = notes[end:]
	}
	return id, false
}

// functions are those of a file, by address.
type functions struct {
	name    string // of the file; "" for none that is known
	loads   []elf.ProgHeader
	symbols []fileSymbol
	table   goTable // of a Go program, which has it when stripped, too
}

// fileSymbol is where a function lies in its file.
type fileSymbol struct {
	value, size uint64
	names       []byte // begin with its own
}

// readFunctions reads what a file tells of its functions, which may be nothing: files of
// images are anybody's, and none may take more memory than limit.Symbols.
func readFunctions(path string) *functions {
	file, err := sys.OpenGiven(path, limit.Symbols)
	if err != nil {
		return &functions{}
	}
	defer file.Close()
	name := path
	if link, err := os.Readlink(path); err == nil {
		name = link
	}
	return functionsOf(file, filepath.Base(name))
}

// readFunctionsIn is readFunctions of a file below root, which no link leads out of.
func readFunctionsIn(root *os.Root, path string) *functions {
	file, err := sys.OpenForeignIn(root, path, limit.Symbols)
	if err != nil {
		return &functions{}
	}
	defer file.Close()
	return functionsOf(file, filepath.Base(path))
}

func functionsOf(file *os.File, name string) *functions {
	f := &functions{}
	e, err := sys.Sections(file, limit.Symbols)
	if err != nil || slices.ContainsFunc(e.Sections, func(s *elf.Section) bool {
		return s.Flags&elf.SHF_COMPRESSED != 0 && limit.Symbols.CheckBytes(int64(min(s.Size, math.MaxInt64))) != nil
	}) {
		return f
	}
	f.name = name
	for _, segment := range e.Progs {
		if segment.Type == elf.PT_LOAD {
			f.loads = append(f.loads, segment.ProgHeader)
		}
	}
	f.symbols = append(symbolsOf(e, elf.SHT_SYMTAB), symbolsOf(e, elf.SHT_DYNSYM)...) // most files lack one of the two, and many both
	slices.SortStableFunc(f.symbols, func(a, b fileSymbol) int { return cmp.Compare(a.value, b.value) })
	if lines, text := e.Section(".gopclntab"), e.Section(".text"); lines != nil && text != nil && len(f.symbols) == 0 {
		if data, err := lines.Data(); err == nil {
			f.table = readGoTable(data, e.ByteOrder, text.Addr)
		}
	}
	return f
}

// symbolsOf reads the functions of one of a file's tables of symbols. debug/elf copies the
// name of each symbol, and millions of symbols may share one long name.
func symbolsOf(e *elf.File, kind elf.SectionType) (found []fileSymbol) {
	table := e.SectionByType(kind)
	if table == nil || int64(table.Link) >= int64(len(e.Sections)) {
		return nil
	}
	data, err := table.Data()
	names, unnamed := e.Sections[table.Link].Data()
	if err != nil || unnamed != nil {
		return nil
	}
	entry, order := elf.Sym64Size, e.ByteOrder
	if e.Class == elf.ELFCLASS32 {
		entry = elf.Sym32Size
	}
	for ; len(data) >= entry; data = data[entry:] {
		var s fileSymbol
		info := data[4]
		if e.Class == elf.ELFCLASS32 {
			info, s.value, s.size = data[12], uint64(order.Uint32(data[4:])), uint64(order.Uint32(data[8:]))
		} else {
			s.value, s.size = order.Uint64(data[8:]), order.Uint64(data[16:])
		}
		at, is := int64(order.Uint32(data)), elf.ST_TYPE(info)
		if s.value > 0 && s.size > 0 && at < int64(len(names)) && (is == elf.STT_FUNC || is == elf.STT_GNU_IFUNC) {
			s.names = names[at:]
			found = append(found, s)
		}
	}
	return found
}

// at names what lies at an offset in the file.
func (f *functions) at(offset uint64) string {
	if f.name == "" {
		return unknown
	}
	address := offset
	for _, l := range f.loads {
		if offset >= l.Off && offset < l.Off+l.Filesz {
			address = offset - l.Off + l.Vaddr
		}
	}
	i, exact := slices.BinarySearchFunc(f.symbols, address, func(s fileSymbol, a uint64) int { return cmp.Compare(s.value, a) })
	if !exact {
		i--
	}
	if i >= 0 && address < f.symbols[i].value+f.symbols[i].size {
		names := f.symbols[i].names
		name, _, _ := bytes.Cut(names[:min(len(names), profile.LongestName)], []byte{0})
		return string(name)
	}
	if name := f.table.function(address); name != "" {
		return name
	}
	return "in " + f.name
}
