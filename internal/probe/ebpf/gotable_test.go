package ebpf

import (
	"bytes"
	"debug/elf"
	"debug/gosym"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/profile"
)

// The table of this test's program has the functions that debug/gosym reads from it.
func TestGoTable(t *testing.T) {
	self, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	data, err := self.Section(".gopclntab").Data()
	if err != nil {
		t.Fatal(err)
	}
	text := self.Section(".text")
	want, err := gosym.NewTable(nil, gosym.NewLineTable(data, text.Addr))
	if err != nil {
		t.Fatal(err)
	}
	got := readGoTable(data, self.ByteOrder, text.Addr)
	for address := text.Addr - 64; address < text.Addr+text.Size+64; address += 61 {
		name := ""
		if f := want.PCToFunc(address); f != nil {
			name = f.Name[:min(len(f.Name), profile.LongestName)]
		}
		if found := got.function(address); found != name {
			t.Fatalf("%#x is in %q, and %q to gosym", address, found, name)
		}
	}
}

// Tables of images are anybody's: of one long name that many functions have, the
// beginning is copied. Numbers that lead out of the table name nothing.
func TestHostileGoTables(t *testing.T) {
	const functions = 100
	long := strings.Repeat("a", 1<<20)
	for magic, table := range map[uint32]struct{ names, functions, field int }{
		go12Table: {0, 0, 8}, go116Table: {2, 6, 8}, go118Table: {3, 7, 4}, go120Table: {3, 7, 4},
	} {
		const entries, names = 8 + 8*8, 8192
		data := append(make([]byte, names), long+"\x00"...)
		le := binary.LittleEndian
		le.PutUint32(data, magic)
		data[6], data[7] = 1, 8
		at, base, first := entries, entries, 0 // of the entries, of offsets in them, of names
		if table.names == 0 {
			at, base, first = 16, 0, names
		} else {
			le.PutUint64(data[8+8*table.names:], names)
			le.PutUint64(data[8+8*table.functions:], entries)
		}
		le.PutUint64(data[8:], functions)
		put := func(n int, v uint64) { copy(data[at+n*table.field:], le.AppendUint64(nil, v)[:table.field]) }
		for i := range functions {
			put(2*i, uint64(i)*16)
			put(2*i+1, uint64(4096-base+i*16))
			le.PutUint32(data[4096+i*16+table.field:], uint32(first+i))
		}
		put(2*functions, functions*16)
		over := limit.Limit{Input: "table", Alloc: 1 << 20}.CheckAlloc(func() {
			if got := readGoTable(data, le, 0).function(8); got != long[:profile.LongestName] {
				t.Errorf("%#x: a name of %d bytes, %.20q", magic, len(got), got)
			}
		})
		if over != nil {
			t.Errorf("%#x: %v", magic, over)
		}
		for end := range names {
			readGoTable(data[:end], le, 0).function(8) // does not panic
		}
		copy(data[16:], bytes.Repeat([]byte{0xff}, names-16))
		if got := readGoTable(data, le, 0).function(8); got != "" {
			t.Errorf("%#x: wild numbers name %.20q", magic, got)
		}
	}
}
