package image

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/limit"
)

// spareBytes of the file system are left free: an archive is input from strangers,
// and a kilobyte of it can claim exabytes.
const spareBytes = 256 << 20

// entryBytes is what an entry counts besides its contents: an inode and a block of a
// directory, which empty files take as well.
const entryBytes = 4096

// Whiteouts of OCI image layers (image-spec, layer.md).
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// unpacker writes layers into one directory. Every path goes through os.Root,
// so nothing can be written outside, and every link is resolved as if the
// directory were the root already.
type unpacker struct {
	ctx     context.Context
	root    *os.Root
	chown   bool            // owners are kept; needs root
	budget  int64           // bytes that may still be written
	entries int             // seen so far, and directories made for them
	kept    int64           // bytes of the paths in mine, of all layers, and in emptied
	modes   dirModes        // of directories, set at the end
	mine    map[string]bool // paths that the current layer has written
	emptied map[string]bool // directories that hold only what is mine
	dropped map[string]int  // kinds of entries that were left out, with their numbers
}

// unpack writes an image's layers, lowest first, into an existing directory.
// It returns notes on what was left out: device nodes and pipes are (a target
// makes its own /dev), and set-user-id bits are cleared, because the directory
// lies on the host.
func unpack(ctx context.Context, img v1.Image, dir string) (notes []string, err error) {
	u, err := newUnpacker(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer u.root.Close()
	layers, err := img.Layers()
	if err != nil {
		return nil, fmt.Errorf("image manifest: %w", err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("image config: %w", err)
	}
	if len(config.RootFS.DiffIDs) != len(layers) {
		return nil, fmt.Errorf("the image has %d layers, and its config names %d", len(layers), len(config.RootFS.DiffIDs))
	}
	for i, l := range layers {
		if err := u.layer(l, config.RootFS.DiffIDs[i]); err != nil {
			return nil, fmt.Errorf("layer %d of %d: %w", i+1, len(layers), err)
		}
	}
	if err := u.finish(); err != nil {
		return nil, err
	}
	return u.notes(), nil
}

func newUnpacker(ctx context.Context, dir string) (*unpacker, error) {
	budget, err := freeBytes(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &unpacker{ctx: ctx, root: root, chown: os.Geteuid() == 0, budget: budget, dropped: map[string]int{}}, nil
}

// freeBytes is what may be written to dir's file system.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return int64(st.Bavail)*st.Bsize - spareBytes, nil
}

// spend takes bytes off a budget of free ones.
func spend(budget *int64, bytes int64) error {
	if bytes < 0 || bytes > *budget {
		return fmt.Errorf("its %d bytes do not fit: the file system would have less than %d bytes left: %w", bytes, int64(spareBytes), unix.ENOSPC)
	}
	*budget -= bytes
	return nil
}

// contextReader reads until its context ends.
type contextReader struct {
	ctx  context.Context
	from io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}

// layer applies one layer and checks that its contents have the digest that
// the image's config promises.
func (u *unpacker) layer(l v1.Layer, want v1.Hash) error {
	stream, err := unpacked(l)
	if err != nil {
		return err
	}
	defer stream.Close()
	sum := sha256.New()
	if err := u.archive(io.TeeReader(stream, sum)); err != nil {
		return err
	}
	if _, err := io.Copy(sum, contextReader{u.ctx, stream}); err != nil { // the padding behind the archive's end
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want.Hex {
		return fmt.Errorf("its contents have the digest sha256:%s, and the image's config says %s: the image is damaged", got, want)
	}
	return nil
}

// zstdWindow is how far back a layer may refer to itself, which is kept in memory. It is
// what zstd unpacks unless it is told to take more.
const zstdWindow = 128 << 20

// unpacked is the archive that a layer holds. Zstd is unpacked here: go-containerregistry
// takes windows of up to 512 MiB, and has no option to bound them.
func unpacked(l v1.Layer) (io.ReadCloser, error) {
	packed, err := l.Compressed()
	if err != nil {
		return nil, err
	}
	in := bufio.NewReader(packed)
	if magic, err := in.Peek(4); err != nil || string(magic) != "\x28\xb5\x2f\xfd" {
		packed.Close()
		return l.Uncompressed()
	}
	z, err := zstd.NewReader(in, zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderConcurrency(1)) // which needs no Close
	if err != nil {
		packed.Close()
		return nil, err
	}
	return archive{z, packed}, nil
}

// archive applies a tar stream.
func (u *unpacker) archive(r io.Reader) error {
	u.mine, u.emptied = map[string]bool{}, map[string]bool{}
	in := tar.NewReader(contextReader{u.ctx, r})
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading its archive: %w", err)
		}
		if err := u.count(); err != nil {
			return err
		}
		if err := u.entry(h, in); err != nil {
			return fmt.Errorf("entry %.200q: %w", h.Name, err)
		}
	}
}

// count counts a file, a link or a directory.
func (u *unpacker) count() error {
	u.entries++
	if err := limit.ImageArchive.CheckItems(u.entries); err != nil {
		return err
	}
	return spend(&u.budget, entryBytes)
}

func (u *unpacker) entry(h *tar.Header, contents io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	for _, p := range []string{h.Name, h.Linkname} { // archive/tar takes a MiB
		if err := limit.ImagePath.CheckBytes(int64(len(p))); err != nil {
			return err
		}
	}
	if slices.Contains(strings.Split(h.Name, "/"), "..") {
		return errors.New("the path leads outside the image")
	}
	dir, base := path.Split(path.Clean("/" + h.Name))
	parent, err := u.resolve(dir)
	if err != nil {
		return err
	}
	if strings.HasPrefix(base, whiteout) {
		return u.hide(parent, base)
	}
	at := path.Join(parent, base) // "." for the root itself
	if err := errors.Join(checkPath(at), u.own(at)); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.dir(at, h)
	case tar.TypeReg:
		return u.file(at, h, contents)
	case tar.TypeSymlink:
		return u.symlink(at, h)
	case tar.TypeLink:
		return u.link(at, h)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		u.dropped["device nodes and pipes"]++
		return nil
	}
	return fmt.Errorf("it is of the unknown type %q", h.Typeflag)
}

// own notes that the current layer has written a path and so needs the
// directories above it: a whiteout of the same layer spares them.
func (u *unpacker) own(at string) error {
	for ; at != "." && !u.mine[at]; at = path.Dir(at) {
		if err := u.keep(u.mine, at); err != nil {
			return err
		}
	}
	return nil
}

// keep adds a path to a set.
func (u *unpacker) keep(set map[string]bool, at string) error {
	set[at] = true
	u.kept += int64(len(at))
	return limit.ImagePaths.CheckBytes(u.kept)
}

// resolve follows a directory's links as if the root were "/", makes what is
// missing, and gives a path that holds no link.
func (u *unpacker) resolve(dir string) (string, error) {
	return inRoot(u.root, dir, func(missing string) error {
		if err := u.count(); err != nil {
			return err
		}
		return u.root.Mkdir(missing, 0o755)
	})
}

// hide carries out a whiteout: it removes what lower layers brought.
func (u *unpacker) hide(parent, base string) error {
	if base == opaque {
		return u.hideAll(parent)
	}
	victim := strings.TrimPrefix(base, whiteout)
	if victim == "" || victim == "." || victim == ".." {
		return errors.New("a whiteout without a name")
	}
	return u.hideOne(path.Join(parent, victim))
}

func (u *unpacker) hideOne(at string) error {
	if u.mine[at] {
		return u.hideAll(at)
	}
	u.modes.forget(at)
	return u.root.RemoveAll(at)
}

// hideAll empties a directory, but for what the current layer wrote. A second time there
// is nothing to do: without this, a layer that repeats a whiteout takes days.
func (u *unpacker) hideAll(at string) error {
	if u.emptied[at] {
		return nil
	}
	info, err := u.root.Lstat(at)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := fs.ReadDir(u.root.FS(), at)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := u.ctx.Err(); err != nil {
			return err
		}
		if err := u.hideOne(path.Join(at, n.Name())); err != nil {
			return err
		}
	}
	return u.keep(u.emptied, at)
}

// clear makes room for something that replaces what is there.
func (u *unpacker) clear(at string) error {
	if at == "." {
		return errors.New("it would replace the root directory")
	}
	info, err := u.root.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		u.modes.forget(at)
	}
	return u.root.RemoveAll(at)
}

func (u *unpacker) dir(at string, h *tar.Header) error {
	info, err := u.root.Lstat(at)
	if err == nil && !info.IsDir() {
		if err := u.clear(at); err != nil {
			return err
		}
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = u.root.Mkdir(at, 0o755)
	}
	if err != nil {
		return err
	}
	u.modes.set(at, u.mode(h))
	return u.owner(at, h)
}

// mode is an entry's permissions as they are set on the host.
func (u *unpacker) mode(h *tar.Header) fs.FileMode {
	m := h.FileInfo().Mode()
	if m&(fs.ModeSetuid|fs.ModeSetgid) != 0 && h.Typeflag == tar.TypeReg {
		u.dropped["set-user-id bits"]++
	}
	return m.Perm() | m&fs.ModeSticky
}

func (u *unpacker) owner(at string, h *tar.Header) error {
	if !u.chown || h.Uid == 0 && h.Gid == 0 {
		return nil
	}
	return u.root.Lchown(at, h.Uid, h.Gid)
}

func (u *unpacker) file(at string, h *tar.Header, contents io.Reader) error {
	if err := spend(&u.budget, h.Size); err != nil {
		return err
	}
	if err := u.clear(at); err != nil {
		return err
	}
	f, err := u.root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, contents)
	if err == nil {
		err = f.Chmod(u.mode(h))
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err := u.owner(at, h); err != nil {
		return err
	}
	return u.root.Chtimes(at, h.ModTime, h.ModTime)
}

func (u *unpacker) symlink(at string, h *tar.Header) error {
	if err := u.clear(at); err != nil {
		return err
	}
	if err := u.root.Symlink(h.Linkname, at); err != nil {
		return err
	}
	return u.owner(at, h)
}

func (u *unpacker) link(at string, h *tar.Header) error {
	if slices.Contains(strings.Split(h.Linkname, "/"), "..") {
		return fmt.Errorf("its link to %.200q leads outside the image", h.Linkname)
	}
	dir, base := path.Split(path.Clean("/" + h.Linkname))
	parent, err := u.resolve(dir)
	if err != nil {
		return err
	}
	target := path.Join(parent, base)
	if target == at {
		return errors.New("it is a link to itself")
	}
	if err := u.clear(at); err != nil {
		return err
	}
	return u.root.Link(target, at)
}

// finish sets the directories' permissions: last and deepest first, because
// one without write permission takes no more files.
func (u *unpacker) finish() error {
	return u.modes.each(".", func(at string, mode fs.FileMode) error {
		if err := u.ctx.Err(); err != nil {
			return err
		}
		return u.root.Chmod(at, mode)
	})
}

func (u *unpacker) notes() []string {
	var notes []string
	for _, kind := range slices.Sorted(maps.Keys(u.dropped)) {
		notes = append(notes, fmt.Sprintf("left out of the root: %d %s", u.dropped[kind], kind))
	}
	return notes
}
