package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
)

// sealFile is in an image's directory of the cache: the digest that its root had
// when it was unpacked.
const sealFile = "seal"

// changedError says that a root of the cache is not as it was unpacked.
type changedError struct{ dir string }

func (e *changedError) Error() string {
	return fmt.Sprintf("the root in %s was changed after it was unpacked", e.dir)
}

// seal writes the digest of the root below dir.
func seal(ctx context.Context, dir string) error {
	digest, err := rootDigest(ctx, filepath.Join(dir, "rootfs"))
	if err != nil {
		return fmt.Errorf("seal the root: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, sealFile), []byte(digest+"\n"), 0o600)
}

// checkSeal compares the root below dir with its seal. A root without one, of an
// older tare, counts as changed.
func checkSeal(ctx context.Context, dir string) error {
	want, err := os.ReadFile(filepath.Join(dir, sealFile))
	if err != nil {
		return &changedError{dir}
	}
	got, err := rootDigest(ctx, filepath.Join(dir, "rootfs"))
	if err != nil {
		return fmt.Errorf("check the root in %s: %w", dir, err)
	}
	if got+"\n" != string(want) {
		return &changedError{dir}
	}
	return nil
}

// rootDigest is the sha256 of all that a root holds: paths, modes, owners, the texts
// of links, and the contents of files.
func rootDigest(ctx context.Context, root string) (string, error) {
	sum := sha256.New()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("%s has no owner", p)
		}
		fmt.Fprintf(sum, "%q %o %d %d\n", p[len(root):], st.Mode, st.Uid, st.Gid)
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			text, err := os.Readlink(p)
			fmt.Fprintf(sum, "%q\n", text)
			return err
		case info.Mode().IsRegular():
			fmt.Fprintf(sum, "%d\n", info.Size())
			f, err := sys.OpenForeign(p, limit.Limit{})
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = io.Copy(sum, f)
			return err
		}
		return nil
	})
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), err
}
