package image

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/cavaliergopher/cpio"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
)

// File is what stands in a guest beside the image: a program, a kernel module.
type File struct {
	Path string // absolute, in the guest; the directories above it are made
	Mode fs.FileMode
	Data []byte
}

// Initramfs writes the tree below root, and extra files after it, as an
// initramfs: an uncompressed cpio archive in the format "newc"
// (Documentation/driver-api/early-userspace/buffer-format.rst in Linux), which
// a kernel unpacks as fast as it can copy. Owners, modes and links are kept;
// what is neither file, directory, link nor device is left out. root "" writes
// the extra files alone.
func Initramfs(ctx context.Context, to io.Writer, root string, extra []File) error {
	buffered := bufio.NewWriterSize(to, 1<<20)
	w := &newc{out: cpio.NewWriter(buffered), made: map[string]bool{}}
	if root != "" {
		if err := w.tree(ctx, root); err != nil {
			return fmt.Errorf("initramfs of %s: %w", root, err)
		}
	}
	for _, f := range extra {
		if err := w.file(f); err != nil {
			return fmt.Errorf("initramfs: %s: %w", f.Path, err)
		}
	}
	return errors.Join(w.out.Close(), buffered.Flush())
}

// newc is an initramfs that is being written.
type newc struct {
	out  *cpio.Writer
	made map[string]bool // directories, by their names in the archive
}

func (w *newc) tree(ctx context.Context, root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil || path == root {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return w.entry(name, path, d)
	})
}

func (w *newc) entry(name, path string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s has no owner", path)
	}
	h := &cpio.Header{Name: name, Mode: cpio.FileMode(st.Mode), Uid: int(st.Uid), Guid: int(st.Gid), ModTime: info.ModTime()}
	switch {
	case info.IsDir():
		w.made[name] = true
		return w.out.WriteHeader(h)
	case info.Mode()&fs.ModeSymlink != 0:
		if h.Linkname, err = os.Readlink(path); err != nil {
			return err
		}
		return w.link(h)
	case info.Mode().IsRegular():
		// What the name led to a moment ago may have been replaced: the descriptor
		// decides.
		f, err := sys.OpenForeign(path, limit.Limit{})
		if err != nil {
			return err
		}
		defer f.Close()
		now, err := f.Stat()
		if err != nil {
			return err
		}
		if !os.SameFile(info, now) {
			return fmt.Errorf("%s was replaced while it was read", path)
		}
		h.Size = now.Size()
		if err := w.out.WriteHeader(h); err != nil {
			return err
		}
		_, err = io.CopyN(w.out, f, h.Size)
		return err
	}
	return nil
}

// link writes a symbolic link, whose contents are its text.
func (w *newc) link(h *cpio.Header) error {
	text := h.Linkname
	h.Linkname, h.Size = "", int64(len(text))
	if err := w.out.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.WriteString(w.out, text)
	return err
}

// file writes an extra file, and the directories that it lacks.
func (w *newc) file(f File) error {
	name := filepath.Clean(f.Path)[1:]
	for i, c := range name {
		if dir := name[:i]; c == '/' && !w.made[dir] {
			w.made[dir] = true
			if err := w.out.WriteHeader(&cpio.Header{Name: dir, Mode: cpio.TypeDir | 0o755}); err != nil {
				return err
			}
		}
	}
	err := w.out.WriteHeader(&cpio.Header{Name: name, Mode: cpio.TypeReg | cpio.FileMode(f.Mode.Perm()), Size: int64(len(f.Data))})
	if err != nil {
		return err
	}
	_, err = w.out.Write(f.Data)
	return err
}

// ext4Slack is room for what the file system needs itself, beside a quarter of
// the files' size.
const ext4Slack = 16 << 20

// Ext4 makes file, an ext4 file system that holds the tree below root. It takes
// mke2fs (the package e2fsprogs), and no root.
func Ext4(ctx context.Context, file, root string) error {
	size, err := TreeSize(root)
	if err == nil {
		// Without a journal: nobody will write to it.
		err = mke2fs(ctx, file, size+size/4+ext4Slack, "-O", "^has_journal", "-d", root)
	}
	if err != nil {
		return fmt.Errorf("ext4 of %s: %w", root, err)
	}
	return nil
}

// Ext4Of makes a raw image of size bytes with an ext4 that holds the tree below
// root, and room for what a guest will write.
func Ext4Of(ctx context.Context, file, root string, size int64) error {
	if err := mke2fs(ctx, file, size, "-d", root); err != nil {
		return fmt.Errorf("ext4 of %s: %w", root, err)
	}
	return nil
}

// Ext4At is Ext4Of with the file system of size bytes at an offset in the file, also in
// bytes: in a partition of a disk.
func Ext4At(ctx context.Context, file, root string, size, offset int64) error {
	if err := mke2fs(ctx, file, size, "-d", root, "-E", fmt.Sprintf("offset=%d", offset)); err != nil {
		return fmt.Errorf("ext4 of %s: %w", root, err)
	}
	return nil
}

// EmptyExt4 makes a raw image of size bytes with an empty ext4 in it, which takes
// no room on the host before it is written to.
func EmptyExt4(ctx context.Context, file string, size int64) error {
	if err := mke2fs(ctx, file, size); err != nil {
		return fmt.Errorf("empty ext4: %w", err)
	}
	return nil
}

func mke2fs(ctx context.Context, file string, size int64, options ...string) error {
	program, err := lookPath("mke2fs", searchPath)
	if err != nil {
		return fmt.Errorf("mke2fs is not installed (apt-get install e2fsprogs): %w", err)
	}
	args := append([]string{"-q", "-F", "-t", "ext4", "-m", "0"}, options...)
	out, err := exec.CommandContext(ctx, program, append(args, file, strconv.FormatInt(size>>10, 10)+"k")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mke2fs: %w: %.500s", err, out)
	}
	return nil
}

// TreeSize is what the files below root take, in blocks of 4 KiB.
func TreeSize(root string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sum += (info.Size() + 4095) &^ 4095
		return nil
	})
	return sum, err
}
