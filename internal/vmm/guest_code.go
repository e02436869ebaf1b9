package vmm

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/tarelab/tare/internal/limit"
)

// ReadCode reads what comes out of Machine.Code (the log of QEMU's -d in_asm) to its end,
// and returns the address of each block of code, in the order of their first runs. The
// guest decides what comes: of more blocks than limit.GuestCode has, the first are
// returned, and whole is false.
func ReadCode(r io.Reader) (blocks []uint64, whole bool, err error) {
	lines := bufio.NewReaderSize(r, 64<<10)
	seen := map[uint64]bool{}
	begins, whole := false, true
	for {
		line, err := lines.ReadSlice('\n')
		switch {
		case bytes.HasPrefix(line, []byte("IN:")):
			begins = true
		case begins && bytes.HasPrefix(line, []byte("0x")):
			begins = false
			digits, _, _ := bytes.Cut(line[2:], []byte(":"))
			at, err := strconv.ParseUint(string(digits), 16, 64)
			switch {
			case err != nil || seen[at]:
			case limit.GuestCode.CheckItems(len(blocks)+1) != nil:
				whole = false
			default:
				seen[at] = true
				blocks = append(blocks, at)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return blocks, whole, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return blocks, whole, err
		}
	}
}
