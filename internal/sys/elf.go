package sys

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tarelab/tare/internal/limit"
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

// Sections reads all headers of an ELF file. debug/elf copies the name of each section, and
// thousands of sections may share one long name: a file whose names could exceed l is
// refused.
func Sections(r io.ReaderAt, l limit.Limit) (*elf.File, error) {
	head := make([]byte, 64)
	if _, err := r.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	at := 60 // e_shnum, and e_shstrndx behind it
	if elf.Class(head[elf.EI_CLASS]) == elf.ELFCLASS32 {
		at = 48
	}
	if head[at] == 0 && head[at+1] == 0 { // none, or more than a linker writes
		return ProgramHeaders(r)
	}
	unnamed := slices.Clone(head)
	clear(unnamed[at+2 : at+4])
	file, err := elf.NewFile(withHead{unnamed, r})
	if err != nil {
		return nil, err
	}
	if i := int(file.ByteOrder.Uint16(head[at+2:])); i < len(file.Sections) {
		size := int64(min(file.Sections[i].Size, 1<<40)) // what is longer is refused, too
		if err := l.CheckBytes(size * int64(len(file.Sections))); err != nil {
			return nil, fmt.Errorf("names of sections: %w", err)
		}
	}
	return elf.NewFile(r)
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
