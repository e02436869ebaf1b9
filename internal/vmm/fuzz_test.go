package vmm

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/limit"
)

// elfWith is a 64-bit ELF file whose one section beside the table of names is
// .modinfo.
func elfWith(t testing.TB, flags uint64, content []byte) []byte {
	t.Helper()
	names := "\x00.modinfo\x00.shstrtab\x00"
	var out bytes.Buffer
	put := func(v any) {
		if err := binary.Write(&out, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	at := uint64(64)
	put(elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: 1, Machine: 62, Version: 1, Ehsize: 64,
		Shoff: at + uint64(len(content)+len(names)), Shentsize: 64, Shnum: 3, Shstrndx: 2})
	out.Write(content)
	out.WriteString(names)
	put(elf.Section64{})
	put(elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Flags: flags, Off: at, Size: uint64(len(content)), Addralign: 1})
	put(elf.Section64{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: at + uint64(len(content)), Size: uint64(len(names)), Addralign: 1})
	return out.Bytes()
}

// compressedZeros is a compressed ELF section that unpacks to n zeros.
func compressedZeros(t testing.TB, n int) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := binary.Write(&out, binary.LittleEndian, elf.Chdr64{Type: uint32(elf.COMPRESS_ZLIB), Size: uint64(n), Addralign: 1}); err != nil {
		t.Fatal(err)
	}
	z := zlib.NewWriter(&out)
	for piece := make([]byte, 1<<20); n > 0; n -= len(piece) {
		if _, err := z.Write(piece[:min(n, len(piece))]); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestModuleBomb: a section of a module that unpacks to 256 MiB is refused unread.
func TestModuleBomb(t *testing.T) {
	bomb := elfWith(t, uint64(elf.SHF_COMPRESSED), compressedZeros(t, 256<<20))
	var err error
	if over := limit.ModuleInfo.CheckAlloc(func() { _, err = dependencies(bomb) }); over != nil || err == nil {
		t.Errorf("%d bytes: %v, %v", len(bomb), over, err)
	}
	names, err := dependencies(elfWith(t, 0, []byte("license=GPL\x00depends=a-b,c\x00")))
	if err != nil || strings.Join(names, " ") != "a_b c" {
		t.Errorf("%q, %v", names, err)
	}
}

// FuzzModule: no file makes the reader of a module's dependencies panic or take more
// memory than its limit.
func FuzzModule(f *testing.F) {
	f.Add(elfWith(f, 0, []byte("license=GPL\x00depends=a-b,c\x00")))
	f.Add(elfWith(f, uint64(elf.SHF_COMPRESSED), compressedZeros(f, 1<<20)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if over := limit.ModuleInfo.CheckAlloc(func() { _, _ = dependencies(data) }); over != nil {
			t.Fatal(over)
		}
	})
}

// FuzzKernel: no file makes the reader of a kernel's header panic, and one that it
// accepts has a format and an architecture.
func FuzzKernel(f *testing.F) {
	image := make([]byte, 4096)
	copy(image[headerMagic:], "HdrS")
	f.Add(image)
	f.Add(elfWith(f, 0, make([]byte, 4096)))
	pe := make([]byte, 4096)
	copy(pe, "MZ\x00\x00zimg")
	pe[0x3c] = 0x40
	copy(pe[0x40:], "PE\x00\x00\x64\x86")
	f.Add(pe)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(pe); err != nil || z.Close() != nil {
		f.Fatal(err)
	}
	f.Add(packed.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		k := Kernel{}
		if err := k.inspect(data); err == nil && (k.Format == "" || k.Arch == "") {
			t.Fatalf("accepted as %+v", k)
		}
	})
}

// FuzzQMP: no answer of a VMM makes the reader panic, and a line has a bound.
func FuzzQMP(f *testing.F) {
	f.Add([]byte("{\"QMP\":{\"version\":{}}}\n{\"return\":{}}\n{\"event\":\"STOP\"}\n{\"error\":{\"class\":\"x\",\"desc\":\"y\"}}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		q := &qmp{lines: bufio.NewReaderSize(bytes.NewReader(data), 16<<10)}
		for {
			if _, err := q.read(); err != nil {
				return
			}
		}
	})
}

// FuzzConsole: what a guest prints, in whatever pieces, leaves no more than what is
// kept.
func FuzzConsole(f *testing.F) {
	f.Add([]byte("[    0.000000] Linux version 6.1.0 (x)\nRun /init as init process\nKernel panic - not syncing: x\n"), 7)
	f.Fuzz(func(t *testing.T, data []byte, piece int) {
		c := newConsole(func(Mark) {}, nil)
		c.dead = func() {}
		size := max(1, piece%4096)
		for at := 0; at < len(data); at += size {
			c.take(data[at:min(at+size, len(data))])
		}
		c.end()
		if kept := len(c.text()); kept > 3*int(limit.Console.Bytes)+size {
			t.Fatalf("%d bytes are kept", kept)
		}
	})
}
