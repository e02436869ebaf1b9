package vmm

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/tarelab/tare/internal/sys"
)

// IsQcow2 reports whether a file is a disk in QEMU's format qcow2. One that would have
// other files read is an error.
func IsQcow2(file string) (bool, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not hang it
	if err != nil {
		return false, err
	}
	defer f.Close()
	head := make([]byte, qcow2Header)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return false, err
	}
	return qcow2(head[:n])
}

// qcow2Header is as much of a header as is looked at, in bytes.
const qcow2Header = 80

// qcow2 reads a header (QEMU, docs/interop/qcow2.txt): magic, version, the place of a
// backing file's name, and, from version 3 on, features, of which bit 2 is an external
// data file.
func qcow2(head []byte) (bool, error) {
	if !bytes.HasPrefix(head, []byte("QFI\xfb")) || len(head) < qcow2Header {
		return false, nil
	}
	if version := binary.BigEndian.Uint32(head[4:]); version < 2 || version > 3 {
		return true, fmt.Errorf("it is a qcow2 image of version %d; 2 and 3 are known", version)
	}
	if binary.BigEndian.Uint64(head[8:]) != 0 {
		return true, errors.New("it is a qcow2 image with a backing file: qemu-img convert makes one of the two")
	}
	if binary.BigEndian.Uint32(head[4:]) >= 3 && binary.BigEndian.Uint64(head[72:])&4 != 0 {
		return true, errors.New("it is a qcow2 image with a data file of its own: qemu-img convert makes one of the two")
	}
	return true, nil
}

// Unqcow2 makes the file to, which may be there, a raw disk of a qcow2 image.
func Unqcow2(ctx context.Context, to, file string) error {
	program, err := exec.LookPath("qemu-img")
	if err != nil {
		return fmt.Errorf("qemu-img, which reads qcow2 disks, is not installed (apt-get install qemu-utils): %w", err)
	}
	// A packed image of some kilobytes may hold more than the disk that it is unpacked to.
	text, err := exec.CommandContext(ctx, program, "measure", "--output=json", "-f", "qcow2", "-O", "raw", file).Output()
	if err != nil {
		return fmt.Errorf("qemu-img measure: %w", err)
	}
	var takes struct {
		Required int64 `json:"required"` // bytes that are written to
	}
	if err := json.Unmarshal(text, &takes); err != nil {
		return fmt.Errorf("qemu-img measure: %w", err)
	}
	if err := sys.Fits(filepath.Dir(to), takes.Required); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, program, "convert", "-f", "qcow2", "-O", "raw", file, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("qemu-img convert: %w: %.500s", err, out)
	}
	return nil
}
