package sys

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
)

// ProgramHeaders reads the header of an ELF file and its program headers: all that the
// kernel and the dynamic linker look at. Section headers may be stripped, or name
// gigabytes; they are not read.
func ProgramHeaders(r io.ReaderAt) (*elf.File, error) {
	head := make([]byte, 64)
	n, err := r.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch elf.Class(head[elf.EI_CLASS]) {
	case elf.ELFCLASS64:
		clear(head[40:48]) // e_shoff
		clear(head[60:64]) // e_shnum, e_shstrndx
	case elf.ELFCLASS32:
		clear(head[32:36])
		clear(head[48:52])
	}
	file, err := elf.NewFile(withHead{head[:n], r})
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("the ELF file is cut short, its headers are not whole: %w", err)
	}
	return file, err
}

// withHead is a file whose first bytes are others.
type withHead struct {
	head []byte
	io.ReaderAt
}

func (w withHead) ReadAt(p []byte, at int64) (int, error) {
	n, err := w.ReaderAt.ReadAt(p, at)
	if at < int64(len(w.head)) {
		copy(p[:n], w.head[at:])
	}
	return n, err
}
