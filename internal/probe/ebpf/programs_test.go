package ebpf

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/profile"
)

// Programs of images are anybody's: one that unpacks to gigabytes of symbols, one whose
// table of section names is a hole of gigabytes, and a pipe take neither memory nor time.
func TestHostilePrograms(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, flags uint64, names, symbols []byte, size int64) string {
		t.Helper()
		var out bytes.Buffer
		at := uint64(64 + 3*64)
		for _, v := range []any{
			elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: 2, Machine: 62, Version: 1, Ehsize: 64, Shoff: 64, Shentsize: 64, Shnum: 3, Shstrndx: 2},
			elf.Section64{}, elf.Section64{Type: uint32(elf.SHT_SYMTAB), Flags: flags, Off: at, Size: uint64(len(symbols)), Link: 2},
			elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: at + uint64(len(symbols)), Size: uint64(max(size, int64(len(names))))}, symbols, names,
		} {
			if err := binary.Write(&out, binary.LittleEndian, v); err != nil {
				t.Fatal(err)
			}
		}
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, out.Bytes(), 0o755); err != nil {
			t.Fatal(err)
		}
		if size > 0 {
			if err := os.Truncate(file, int64(out.Len())+size); err != nil {
				t.Fatal(err)
			}
		}
		return file
	}
	var symbols, bomb bytes.Buffer
	for _, s := range []elf.Sym64{{}, {Name: 1, Info: elf.ST_INFO(elf.STB_GLOBAL, elf.STT_FUNC), Value: 0x1000, Size: 16}} {
		if err := binary.Write(&symbols, binary.LittleEndian, s); err != nil {
			t.Fatal(err)
		}
	}
	if err := binary.Write(&bomb, binary.LittleEndian, elf.Chdr64{Type: uint32(elf.COMPRESS_ZLIB), Size: uint64(limit.Symbols.Bytes) + 24, Addralign: 1}); err != nil {
		t.Fatal(err)
	}
	z := zlib.NewWriter(&bomb)
	for range limit.Symbols.Bytes>>20 + 1 {
		if _, err := z.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	pipe := filepath.Join(dir, "pipe")
	if err := errors.Join(z.Close(), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := readFunctions(put("plain", 0, []byte("\x00main\x00"), symbols.Bytes(), 0)).at(0x1008); got != "main" {
		t.Errorf("a plain program: %q", got)
	}
	little := limit.Limit{Input: "program", Alloc: 16 << 20}
	for _, file := range []string{
		put("bomb", uint64(elf.SHF_COMPRESSED), []byte("\x00main\x00"), bomb.Bytes(), 0),
		put("hole", 0, []byte("\x00main\x00"), symbols.Bytes(), limit.Symbols.Bytes), pipe,
	} {
		over := little.CheckAlloc(func() {
			_, _ = idOf(file) // none has one
			if f := readFunctions(file); f.name != "" || len(f.symbols) != 0 {
				t.Errorf("%s: %d symbols", file, len(f.symbols))
			}
		})
		if over != nil {
			t.Errorf("%s: %v", file, over)
		}
	}
	symbols.Reset() // many functions with one name of a MiB
	for i := range 100 {
		s := elf.Sym64{Name: 1, Info: elf.ST_INFO(elf.STB_GLOBAL, elf.STT_FUNC), Value: uint64(i) * 0x1000, Size: 16}
		if err := binary.Write(&symbols, binary.LittleEndian, s); err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Repeat("a", 1<<20)
	shared := put("shared", 0, []byte("\x00"+long+"\x00"), symbols.Bytes(), 0)
	over := little.CheckAlloc(func() {
		if got := readFunctions(shared).at(0x1008); got != long[:profile.LongestName] {
			t.Errorf("a long name: %d bytes, %.20q", len(got), got)
		}
	})
	if over != nil {
		t.Errorf("names that are one: %v", over)
	}
}
