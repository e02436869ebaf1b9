package sys

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// CopySparse makes the file to, which must not be there, a copy of the regular file
// from. Where the file system can, the two share their blocks until one of them is
// written to. Else what is written in from is copied, and its holes stay holes. A copy
// that the file system has no room for is refused before it begins. After an error
// there is no file.
func CopySparse(ctx context.Context, to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) != nil {
		err = copyWritten(ctx, out, in)
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return errors.Join(fmt.Errorf("copy %s: %w", from, err), os.Remove(to))
	}
	return nil
}

// copyWritten copies what is no hole.
func copyWritten(ctx context.Context, out, in *os.File) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(in.Fd()), &stat); err != nil {
		return err
	}
	if err := Fits(out.Name(), stat.Blocks*512); err != nil {
		return err
	}
	if err := out.Truncate(stat.Size); err != nil {
		return err
	}
	for at := int64(0); ; {
		data, err := unix.Seek(int(in.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // only a hole is left
		}
		if err != nil {
			return err
		}
		if at, err = unix.Seek(int(in.Fd()), data, unix.SEEK_HOLE); err != nil {
			return err
		}
		if err := copyRange(ctx, out, in, data, at); err != nil {
			return err
		}
	}
}

// copyPiece is how much is copied between two looks at the context.
const copyPiece = 16 << 20

func copyRange(ctx context.Context, out, in *os.File, at, end int64) error {
	for _, f := range []*os.File{out, in} {
		if _, err := f.Seek(at, io.SeekStart); err != nil {
			return err
		}
	}
	for left := end - at; left > 0; left -= copyPiece {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := io.CopyN(out, in, min(left, copyPiece)); err != nil { // within the kernel, where that can
			return err
		}
	}
	return nil
}

// Fits refuses what is more than the file system of a file or directory has room for.
func Fits(name string, bytes int64) error {
	var room unix.Statfs_t
	if err := unix.Statfs(name, &room); err != nil {
		return fmt.Errorf("room of the file system of %s: %w", name, err)
	}
	if free := int64(room.Bavail) * room.Bsize; bytes > free {
		return fmt.Errorf("it takes %d MiB, and the file system of %s has room for %d MiB", bytes>>20, name, free>>20)
	}
	return nil
}
