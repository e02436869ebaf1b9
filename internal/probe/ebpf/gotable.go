package ebpf

import (
	"bytes"
	"encoding/binary"
	"sort"

	"github.com/tarelab/tare/internal/profile"
)

// goTable is a Go program's table of its functions (.gopclntab, since Go 1.2), which is
// read where it is asked. debug/gosym makes an object of each function and copies each
// name: it takes gigabytes for a table whose functions share one long name.
type goTable struct {
	order     binary.ByteOrder
	text      uint64 // added to addresses in the table
	field     int    // bytes of a number in entries
	count     int
	entries   []byte // address and offset in functions, for each function; the end's address
	functions []byte
	names     []byte
}

// The first bytes of the table, by the version of Go that wrote it.
const (
	go12Table  = 0xfffffffb
	go116Table = 0xfffffffa
	go118Table = 0xfffffff0
	go120Table = 0xfffffff1
)

// readGoTable reads the header of a table; one of another kind has no functions.
func readGoTable(data []byte, order binary.ByteOrder, text uint64) goTable {
	t := goTable{order: order}
	if len(data) < 8 || data[7] != 4 && data[7] != 8 {
		return t
	}
	word := int(data[7])
	part := func(n int) []byte { return after(data, t.number(data, uint64(8+n*word), word)) }
	t.field = word
	switch order.Uint32(data) {
	case go118Table, go120Table:
		t.field, t.text = 4, text
		t.names, t.functions = part(3), part(7)
		t.entries = t.functions
	case go116Table:
		t.names, t.functions = part(2), part(6)
		t.entries = t.functions
	case go12Table:
		t.names, t.functions, t.entries = data, data, after(data, uint64(8+word))
	}
	most := uint64(max(0, len(t.entries)/t.field-1) / 2)
	t.count = int(min(most, t.number(data, 8, word)))
	return t
}

// function names the function at an address; "" where there is none.
func (t goTable) function(address uint64) string {
	entry := func(n int) uint64 { return t.text + t.number(t.entries, uint64(2*n*t.field), t.field) }
	i := sort.Search(t.count, func(n int) bool { return entry(n) > address }) - 1
	if i < 0 || address >= entry(i+1) {
		return ""
	}
	function := after(t.functions, t.number(t.entries, uint64((2*i+1)*t.field), t.field))
	names := after(t.names, t.number(function, uint64(t.field), 4)) // behind its address
	name, _, _ := bytes.Cut(names[:min(len(names), profile.LongestName)], []byte{0})
	return string(name)
}

// number is the number of 4 or 8 bytes at an offset, 0 beyond the end.
func (t goTable) number(b []byte, at uint64, size int) uint64 {
	switch b = after(b, at); {
	case len(b) < size:
		return 0
	case size == 4:
		return uint64(t.order.Uint32(b))
	}
	return t.order.Uint64(b)
}

// after is what follows an offset, nothing beyond the end.
func after(b []byte, at uint64) []byte { return b[min(at, uint64(len(b))):] }
