package vmm

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
)

// TestQcow2: what names another file is refused, and so is a version that has other fields.
func TestQcow2(t *testing.T) {
	header := func(version uint32, backing, features uint64) []byte {
		head := append([]byte("QFI\xfb"), make([]byte, qcow2Header-4)...)
		binary.BigEndian.PutUint32(head[4:], version)
		binary.BigEndian.PutUint64(head[8:], backing)
		binary.BigEndian.PutUint64(head[72:], features)
		return head
	}
	for _, c := range []struct {
		head []byte
		is   bool
		err  string
	}{
		{header(3, 0, 0), true, ""},
		{header(2, 0, 1<<2), true, ""}, // version 2 has no such field
		{header(3, 4096, 0), true, "backing file"},
		{header(3, 0, 1<<2), true, "data file"},
		{header(1, 0, 0), true, "version 1"},
		{header(9, 0, 0), true, "version 9"},
		{make([]byte, qcow2Header), false, ""},
		{nil, false, ""},
	} {
		is, err := qcow2(c.head)
		if is != c.is || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%.20q: %v, %v; want %v, %q", c.head, is, err, c.is, c.err)
		}
	}
}

// FuzzQcow2: no header makes the reader panic, and none with a backing file is taken.
func FuzzQcow2(f *testing.F) {
	f.Add([]byte("QFI\xfb\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x02\x00"))
	f.Add(make([]byte, 80))
	f.Fuzz(func(t *testing.T, head []byte) {
		is, err := qcow2(head)
		if is && err == nil && slices.ContainsFunc(head[8:16], func(b byte) bool { return b != 0 }) {
			t.Errorf("% x has a backing file", head[:16])
		}
	})
}
