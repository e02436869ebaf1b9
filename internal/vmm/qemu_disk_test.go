package vmm

import (
	"slices"
	"testing"
)

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
