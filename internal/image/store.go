// Package image makes the roots that payloads run in: the workbench image,
// assembled from programs of this machine, a user's image or directory, and a
// workbench with a user's command. Images are content-addressed and cached.
package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// Store is the cache of images: one directory per image, named by the digest of
// its manifest, with the image layout in oci/, the unpacked root in rootfs/ and
// the root's digest in seal. Processes share it: a lock orders those that write,
// and an image in use is locked against removal. A killed process leaves only a
// directory tmp-*, which the next one removes. No other user can enter the cache:
// roots have directories that everybody may write to.
type Store struct{ dir string }

// temporary begins the names of the directories that no image has yet, or has any more.
const temporary = "tmp-"

// NewStore is the cache below tare's state directory; it is made when needed.
func NewStore(stateDir string) *Store { return &Store{filepath.Join(stateDir, "images")} }

// Root is a root file system to run payloads in. Nobody writes to it.
type Root struct {
	Rootfs string // absolute path of the directory
	Digest string // of the image's manifest, "sha256:..."; of a user's directory "stat:..." (names, sizes, times)
	Layout string // the OCI image layout on disk; "" for a user's directory
	// Mounts must be part of every Spec that uses the root: the guest binaries,
	// where they could not be put into the root itself. Mostly empty.
	Mounts []driver.Mount
	Config v1.Config // of a user's image: its command, environment, directory
	Tools  []Tool    // of the workbench; those without a Path are not installed
	Notes  []string  // what the reader should know of the root

	saved    string            // file of a saved workbench, to which nothing is added
	commands map[string]string // of ForCommands: as given -> absolute path in the root
	base     tree              // of the workbench
	guest    map[string][]byte // guest binaries by absolute path in the root
	release  func() error
}

// Close lets go of the root: it ends the overlay of a user's directory, and
// the cache may remove an image that nobody else uses. It is idempotent, and
// the zero Root may be closed.
func (r Root) Close() error {
	if r.release == nil {
		return nil
	}
	return r.release()
}

// Lacks gives the tools among names that the workbench has not, because they
// are not installed here.
func (r Root) Lacks(names []string) []Tool {
	var missing []Tool
	for _, t := range r.Tools {
		if t.Path == "" && slices.Contains(names, t.Name) {
			missing = append(missing, t)
		}
	}
	return missing
}

// Apart gives the names among those of tools that are installed here and come into a root
// only through ForCommands.
func (r Root) Apart(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return r.apart(n).Path == "" })
}

// Workbench gives the workbench image: the programs that are installed here,
// with their libraries, and guest, the guest binaries by their absolute path
// in the root ("/.tare/mark").
func (s *Store) Workbench(ctx context.Context, guest map[string][]byte) (Root, error) {
	base, found, err := workbench(ctx, guest)
	if err != nil {
		return Root{}, err
	}
	r, err := s.recipe(ctx, recipe{base})
	if err != nil {
		return Root{}, fmt.Errorf("workbench image: %w", err)
	}
	r.Tools, r.base, r.guest = found, base, guest
	return r, nil
}

// keep gives the root of the image that build makes, from the cache where it
// is there already. build gets a directory for its files.
func (s *Store) keep(ctx context.Context, build func(tmp string) (v1.Image, error)) (Root, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return Root{}, err
	}
	defer unlock()
	var notes []string
	if err := s.sweep(); err != nil { // the next one tries again; a new image needs none of it
		notes = append(notes, "the image store keeps what a killed process left: "+err.Error())
	}
	tmp, err := os.MkdirTemp(s.dir, temporary)
	if err != nil {
		return Root{}, err
	}
	defer func() { _ = removeTree(tmp) }() // what stays of an error, the next sweep removes
	img, err := build(tmp)
	if err != nil {
		return Root{}, err
	}
	digest, err := img.Digest()
	if err != nil {
		return Root{}, err
	}
	final := filepath.Join(s.dir, digest.Hex)
	r, err := use(ctx, final, digest.String())
	if changed := (*changedError)(nil); errors.As(err, &changed) {
		if gone, perr := pruneOne(final); !gone {
			return Root{}, errors.Join(fmt.Errorf("%w, and another process uses it: end that, then try again", err), perr)
		}
		notes = append(notes, "unpacked again: "+err.Error())
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		left, err := s.install(ctx, img, tmp, final)
		if err != nil {
			return Root{}, err
		}
		notes = append(notes, left...)
		r, err = use(ctx, final, digest.String())
		if err != nil {
			return Root{}, err
		}
	} else if err != nil {
		return Root{}, err
	}
	r.Notes = notes
	if c, err := img.ConfigFile(); err == nil {
		r.Config = c.Config
	}
	return r, nil
}

// install writes and unpacks an image beside its final place, then renames it
// there: it is there whole or not at all.
func (s *Store) install(ctx context.Context, img v1.Image, tmp, final string) ([]string, error) {
	if err := layersFit(img, tmp); err != nil {
		return nil, err
	}
	whole := filepath.Join(tmp, "whole")
	rootfs := filepath.Join(whole, "rootfs")
	if err := os.MkdirAll(rootfs, 0o755); err != nil {
		return nil, err
	}
	at, err := layout.Write(filepath.Join(whole, "oci"), empty.Index)
	if err != nil {
		return nil, fmt.Errorf("image layout: %w", err)
	}
	if err := at.AppendImage(img); err != nil {
		return nil, fmt.Errorf("image layout: %w", err)
	}
	// From the copy, which nobody else can change: what engines are given and what
	// is unpacked is then the same.
	digest, err := img.Digest()
	if err != nil {
		return nil, err
	}
	if img, err = at.Image(digest); err != nil {
		return nil, fmt.Errorf("image layout: %w", err)
	}
	notes, err := unpack(ctx, img, rootfs)
	if err != nil {
		return nil, fmt.Errorf("unpacking: %w", err)
	}
	if err := seal(ctx, whole); err != nil {
		return nil, err
	}
	if err := syncTree(whole); err != nil {
		return nil, err
	}
	return notes, os.Rename(whole, final)
}

// layersFit refuses an image whose layers leave too little free where they are copied to:
// a file of 10 TiB need not take any room where it lies.
func layersFit(img v1.Image, dir string) error {
	budget, err := freeBytes(dir)
	if err != nil {
		return err
	}
	layers, err := img.Layers()
	if err != nil {
		return fmt.Errorf("image manifest: %w", err)
	}
	for i, l := range layers {
		size, err := l.Size()
		if err == nil {
			err = spend(&budget, size)
		}
		if err != nil {
			return fmt.Errorf("layer %d of %d: %w", i+1, len(layers), err)
		}
	}
	return nil
}

// syncTree puts a directory's file system on disk, so that a crash of the
// machine cannot leave a renamed directory with empty files in it.
func syncTree(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

// use opens an image of the cache, guards it against Prune, and checks that its root
// is as it was unpacked. Else the error is a changedError.
func use(ctx context.Context, dir, digest string) (Root, error) {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return Root{}, err
	}
	if err := unix.Flock(int(d.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		d.Close()
		return Root{}, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := checkSeal(ctx, dir); err != nil {
		d.Close()
		return Root{}, err
	}
	// By its name, which fails where Prune came between the open and the lock.
	now := time.Now() // of last use, for Prune; no measurement
	if err := os.Chtimes(dir, now, now); err != nil {
		d.Close()
		return Root{}, err
	}
	return Root{Rootfs: filepath.Join(dir, "rootfs"), Digest: digest, Layout: filepath.Join(dir, "oci"), release: sync.OnceValue(d.Close)}, nil
}

// Prune removes the images that no process uses and none has used for age, and of
// the others all but the keep that were used last. It returns how many.
func (s *Store) Prune(ctx context.Context, age time.Duration, keep int) (removed int, err error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	failed := s.sweep()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return 0, err
	}
	var images []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && !strings.HasPrefix(e.Name(), temporary) {
			images = append(images, info)
		}
	}
	slices.SortFunc(images, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for i, info := range images {
		if i < keep && time.Since(info.ModTime()) < age {
			continue
		}
		gone, err := pruneOne(filepath.Join(s.dir, info.Name()))
		if gone {
			removed++
		}
		failed = errors.Join(failed, err)
	}
	return removed, errors.Join(failed, s.pruneNotes())
}

// pruneNotes removes the notes of images that are gone.
func (s *Store) pruneNotes() error {
	notes, err := s.named("made-")
	if err != nil {
		return err
	}
	for _, n := range notes {
		b, err := os.ReadFile(n)
		if err != nil {
			return err
		}
		if hash, err := v1.NewHash(strings.TrimSpace(string(b))); err == nil {
			if _, err := os.Stat(filepath.Join(s.dir, hash.Hex)); err == nil {
				continue
			}
		}
		if err := os.Remove(n); err != nil {
			return err
		}
	}
	return nil
}

// pruneOne removes an image unless a process holds it. It is gone from the cache even
// where the error says that some of it could not be removed.
func pruneOne(dir string) (bool, error) {
	d, err := os.Open(dir)
	if err != nil {
		return false, err
	}
	defer d.Close()
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return false, nil // in use
	}
	doomed, err := os.MkdirTemp(filepath.Dir(dir), temporary) // a name that nothing else has
	if err != nil {
		return false, err
	}
	if err := unix.Rename(dir, doomed); err != nil {
		return false, errors.Join(fmt.Errorf("rename %s: %w", dir, err), os.Remove(doomed))
	}
	return true, removeTree(doomed)
}

// lock makes the store's directory and waits for its lock, which the kernel
// releases when the holder dies.
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
	if err := s.private(); err != nil {
		return nil, fmt.Errorf("image store: %w", err)
	}
	f, err := sys.LockFile(ctx, filepath.Join(s.dir, "lock"), nil)
	if err != nil {
		return nil, fmt.Errorf("image store: %w", err)
	}
	return func() { f.Close() }, nil
}

// private makes the store's directory, which only its user can enter: a cache of an
// older tare is shut as well.
func (s *Store) private() error {
	if err := os.MkdirAll(filepath.Dir(s.dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := s.followOwn(); err != nil {
		return err
	}
	d, err := os.OpenFile(s.dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(d.Fd()), &st); err != nil {
		return err
	}
	if int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, not to user %d: choose another directory with --state", s.dir, st.Uid, os.Geteuid())
	}
	return d.Chmod(0o700)
}

// followOwn takes the directory that a link of the user's leads to, as one to a
// larger disk does. Nobody else's link is followed.
func (s *Store) followOwn() error {
	var st unix.Stat_t
	if err := unix.Lstat(s.dir, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: s.dir, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK || int(st.Uid) != os.Geteuid() {
		return nil
	}
	dir, err := filepath.EvalSymlinks(s.dir)
	if err == nil {
		s.dir = dir
	}
	return err
}

// sweep removes what killed processes left, all that it can, and returns the first
// failure. The caller holds the lock, so no living process owns any of it.
func (s *Store) sweep() error {
	left, err := s.named(temporary)
	for _, dir := range left {
		err = cmp.Or(err, removeTree(dir))
	}
	return err
}

// named are the paths of what lies in the store under names that begin so. The store's
// own path is no pattern: brackets in it are letters.
func (s *Store) named(prefix string) ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			paths = append(paths, filepath.Join(s.dir, e.Name()))
		}
	}
	return paths, nil
}

// removeTree removes a directory even where, as a plain user's unpacked image
// may have them, some directories in it forbid writing.
func removeTree(dir string) error {
	err := sys.RemoveAll(dir)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	walk := func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			return os.Chmod(p, 0o700)
		}
		return err
	}
	if err := filepath.WalkDir(dir, walk); err != nil {
		return err
	}
	return sys.RemoveAll(dir)
}
