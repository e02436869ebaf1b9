package sys_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
)

// TestSections: sections that share one long name are refused before it is copied for each
// of them.
func TestSections(t *testing.T) {
	const sections, name = 1000, 1 << 20
	var file bytes.Buffer
	for _, v := range []any{
		elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: 2, Machine: 62, Version: 1, Ehsize: 64, Shoff: 64, Shentsize: 64, Shnum: sections, Shstrndx: 1},
		elf.Section64{}, elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: 64 * (1 + sections), Size: name},
		make([]elf.Section64, sections-2), bytes.Repeat([]byte{'a'}, name-1), byte(0),
	} {
		if err := binary.Write(&file, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	l := limit.Limit{Input: "program", Bytes: 16 << 20, Alloc: 16 << 20}
	var err error
	if over := l.CheckAlloc(func() { _, err = sys.Sections(bytes.NewReader(file.Bytes()), l) }); over != nil || !errors.As(err, new(*limit.Error)) {
		t.Errorf("%v, %v", over, err)
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	if e, err := sys.Sections(self, l); err != nil || e.Section(".text") == nil {
		t.Errorf("this program: %v", err)
	}
}
