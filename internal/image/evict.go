package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
)

// Evict takes files of the root out of the page cache: they are written to the disk,
// and their pages are given up. Pages that a process has mapped stay, as those of the C
// library of a root that the machine itself runs on; what lies in memory stays too. Paths
// are absolute inside the root; one that is missing is passed over.
func (r Root) Evict(paths []string) error {
	root, err := os.OpenRoot(r.Rootfs)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, p := range paths {
		f, err := openIn(root, p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = errors.Join(evict(f), f.Close())
		}
		if err != nil {
			return fmt.Errorf("page cache of %s: %w", p, err)
		}
	}
	return nil
}

func evict(f *os.File) error {
	if err := f.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EROFS) {
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// ProgramDigest is the SHA-256 of a program of the root, "sha256:...".
func (r Root) ProgramDigest(program string) (string, error) {
	root, err := os.OpenRoot(r.Rootfs)
	if err != nil {
		return "", err
	}
	defer root.Close()
	f, err := openIn(root, program)
	if err != nil {
		return "", fmt.Errorf("digest of %s: %w", program, err)
	}
	defer f.Close()
	return sys.Digest(program, f)
}

// openIn opens a regular file of a root, as a process would see it whose root that is.
func openIn(root *os.Root, p string) (*os.File, error) {
	at, err := inRoot(root, p, nil)
	if err != nil {
		return nil, err
	}
	return sys.OpenForeignIn(root, at, limit.Limit{})
}
