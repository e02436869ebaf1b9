package sys

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Overlay names the directories of an overlay file system.
type Overlay struct {
	Lower string // read-only, shared
	Upper string // takes the writes
	Work  string // empty, on Upper's file system
}

// Data are the mount options, with what overlayfs takes for a separator escaped.
// inUserNamespace asks for marks in user extended attributes, the only ones that
// a user namespace may write (since Linux 5.11).
func (o Overlay) Data(inUserNamespace bool) string {
	data := "lowerdir=" + escapeOption(o.Lower) + ",upperdir=" + escapeOption(o.Upper) + ",workdir=" + escapeOption(o.Work)
	if inUserNamespace {
		data += ",userxattr"
	}
	return data
}

var escapeOption = strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`).Replace

// Unmount takes the mount at dir away with all below it, lazily: what still uses
// it keeps it until it ends. A dir that is no mount point is no error.
func Unmount(dir string) error {
	err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err == nil || err == unix.EINVAL || err == unix.ENOENT {
		return nil
	}
	return fmt.Errorf("unmount %s: %w", dir, err)
}

// UnmountBelow takes away every mount at or below dir, and every overlay that
// writes below it wherever it is mounted, the innermost first. It returns the
// mount points, also when some could not be unmounted.
func UnmountBelow(dir string) ([]string, error) {
	dir, err := real(dir)
	if err != nil {
		return nil, err
	}
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		return !below(m.Mountpoint, dir) && !writesBelow(m, dir), false
	})
	if err != nil {
		return nil, fmt.Errorf("list the mounts below %s: %w", dir, err)
	}
	var done []string
	var errs []error
	for _, m := range slices.Backward(mounts) { // a later one may lie on an earlier one
		if err := Unmount(m.Mountpoint); err != nil {
			errs = append(errs, err)
			continue
		}
		done = append(done, m.Mountpoint)
	}
	return done, errors.Join(errs...)
}

// real is a path as the kernel's list of mounts has it: absolute, and without
// symbolic links where it exists.
func real(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		return resolved, nil
	}
	return dir, nil
}

func below(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

func writesBelow(m *mountinfo.Info, dir string) bool {
	if m.FSType != "overlay" {
		return false
	}
	for o := range strings.SplitSeq(m.VFSOptions, ",") {
		if upper, ok := strings.CutPrefix(o, "upperdir="); ok {
			return below(upper, dir)
		}
	}
	return false
}

// RemoveTree unmounts what is mounted below dir and removes dir with all that
// it holds. Where a mount stays it removes nothing: what shines through a mount
// is not ours to delete.
func RemoveTree(dir string) error {
	unmounted, err := UnmountBelow(dir)
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	if len(unmounted) == 0 {
		return RemoveAll(dir)
	}
	at, err := real(dir)
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	left, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) { return !below(m.Mountpoint, at), false })
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	if len(left) > 0 {
		return fmt.Errorf("remove %s: %s is still mounted", dir, left[0].Mountpoint)
	}
	return RemoveAll(dir)
}
