package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
)

// Directory gives a user's root file system, used as it is and never written
// to. bench's guest binaries must be in it for a run: they are put into a new
// directory below scratch, and where root's rights and the file system allow
// it, a read-only overlay of both (mount source "tare") becomes the root, which
// Close removes. Otherwise the result's Mounts bring the guest binaries into
// each instance, and a note says so.
func (s *Store) Directory(ctx context.Context, dir string, bench Root, scratch string) (Root, error) {
	real, err := rootDir(dir)
	if err != nil {
		return Root{}, err
	}
	digest, err := Fingerprint(ctx, real)
	if err != nil {
		return Root{}, fmt.Errorf("rootfs %s: %w", dir, err)
	}
	return directory(dir, real, digest, bench, scratch)
}

// Host is Directory of this machine's own files: those of the file system at /, without
// what is mounted below it. Its digest names the state of /etc and /usr.
func (s *Store) Host(ctx context.Context, bench Root, scratch string) (Root, error) {
	sum := sha256.New()
	for _, dir := range []string{"/etc", "/usr"} {
		digest, err := Fingerprint(ctx, dir)
		if err != nil {
			return Root{}, fmt.Errorf("this machine's files: %w", err)
		}
		fmt.Fprintf(sum, "%s %s\n", dir, digest)
	}
	return directory("/", "/", "stat:"+hex.EncodeToString(sum.Sum(nil)), bench, scratch)
}

// directory brings the guest binaries into a directory that is called dir.
func directory(dir, real, digest string, bench Root, scratch string) (Root, error) {
	r := Root{Rootfs: real, Digest: digest, guest: bench.guest}
	own, err := os.MkdirTemp(scratch, "rootfs-")
	if err != nil {
		return Root{}, fmt.Errorf("rootfs: %w", err)
	}
	r.release = sync.OnceValue(func() error { return os.RemoveAll(own) })
	guest := filepath.Join(own, "guest")
	if err := writeGuest(bench.guest, guest); err != nil {
		return Root{}, errors.Join(fmt.Errorf("guest binaries: %w", err), r.Close())
	}
	at := filepath.Join(own, "root")
	if err = merge(guest, real, at); err == nil {
		r.Rootfs = at
		r.release = sync.OnceValue(func() error { return unmergeAll(at, own) })
		return r, nil
	}
	for _, top := range topDirs(bench.guest) {
		r.Mounts = append(r.Mounts, driver.Mount{Source: filepath.Join(guest, top), Target: "/" + top, ReadOnly: true})
	}
	r.Notes = append(r.Notes, fmt.Sprintf("the guest binaries are bind-mounted into each instance, because no overlay could be made of %s: %v", dir, err))
	return r, nil
}

// unmergeAll ends the overlay, then removes the directory that held it; while
// the overlay stands nothing may be removed.
func unmergeAll(at, own string) error {
	if err := unmerge(at); err != nil {
		return err
	}
	return os.RemoveAll(own)
}

// rootDir checks a user's --rootfs and gives its real path.
func rootDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("rootfs %s: %w", dir, err)
	}
	real, err := realPath(abs)
	if err != nil {
		return "", fmt.Errorf("rootfs: %w", err)
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", fmt.Errorf("rootfs: %w", err)
	}
	if real == "/" {
		return "", fmt.Errorf("rootfs %s is this machine's own root, with all that is mounted below it: give a copy of it, or run a study whose environment has the image \"host\"", dir)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("rootfs %s is a file, not a directory (for an image use --image)", dir)
	}
	return real, nil
}

// writeGuest lays the guest binaries out below dir.
func writeGuest(guest map[string][]byte, dir string) error {
	for p, b := range guest {
		file := filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, b, 0o755); err != nil {
			return err
		}
	}
	return os.MkdirAll(dir, 0o755)
}

// topDirs are the first path elements of the guest binaries.
func topDirs(guest map[string][]byte) []string {
	tops := map[string]bool{}
	for p := range guest {
		top, _, _ := strings.Cut(key(p), "/")
		tops[top] = true
	}
	return slices.Sorted(maps.Keys(tops))
}

// merge mounts a read-only overlay of upper over lower.
func merge(upper, lower, at string) error {
	if os.Geteuid() != 0 {
		return errors.New("a mount needs root")
	}
	var st unix.Statfs_t
	if err := unix.Statfs(lower, &st); err != nil {
		return err
	}
	if st.Type == unix.OVERLAYFS_SUPER_MAGIC {
		// An instance puts its own overlay on top, and the kernel stacks two
		// (include/linux/fs.h, FILESYSTEM_MAX_STACK_DEPTH).
		return errors.New("it lies on an overlay already")
	}
	if err := os.Mkdir(at, 0o755); err != nil {
		return err
	}
	options := "lowerdir=" + escapeLower(upper) + ":" + escapeLower(lower)
	if err := unix.Mount(driver.Label, at, "overlay", unix.MS_RDONLY, options); err != nil {
		return errors.Join(fmt.Errorf("mount overlay: %w", err), os.Remove(at))
	}
	if err := unix.Mount("", at, "", unix.MS_PRIVATE, ""); err != nil {
		return errors.Join(fmt.Errorf("make the overlay private: %w", err), unmerge(at))
	}
	return nil
}

// escapeLower protects what separates directories and options (kernel,
// Documentation/filesystems/overlayfs.rst).
func escapeLower(p string) string {
	return strings.NewReplacer(`\`, `\\`, ":", `\:`, ",", `\,`).Replace(p)
}

// unmerge removes the overlay. An instance that was killed may hold it for a
// moment yet: then it goes with its last user.
func unmerge(at string) error {
	err := unix.Unmount(at, unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EBUSY) {
		err = unix.Unmount(at, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", at, err)
	}
	return os.Remove(at)
}

// Fingerprint names the state of a directory tree without reading its files, by
// paths, types, permissions, sizes, times and link targets: "stat:" and 64
// hexadecimal digits. Two runs on the same digest used the same tree, unless
// somebody forged times.
func Fingerprint(ctx context.Context, dir string) (string, error) {
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrPermission) && d != nil {
				fmt.Fprintf(sum, "%q unreadable\n", p)
				return nil
			}
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed a moment ago
		}
		if err != nil {
			return err
		}
		size := info.Size()
		if info.IsDir() {
			size = 0 // depends on the directory's history
		}
		link := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if link, err = os.Readlink(p); err != nil {
				return err
			}
		}
		fmt.Fprintf(sum, "%q %v %d %d %q\n", path.Clean(strings.TrimPrefix(p, dir)), info.Mode(), size, info.ModTime().UnixNano(), link)
		return nil
	})
	if err != nil {
		return "", err
	}
	return "stat:" + hex.EncodeToString(sum.Sum(nil)), nil
}
