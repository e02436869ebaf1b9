package hostimage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/kerneltools/containerhost"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/sys"
)

// output is where an image and the files beside it go: they are written next to
// their places, and moved there once all are whole.
type output struct {
	disk  string // absolute
	stem  string // of the files beside it
	force bool
}

// beside are the endings of the files next to the disk, in the order of their use.
var beside = []string{"vmlinuz", "vmlinux", "qemu.sh", "libvirt.xml", "stratovirt.sh", "firecracker.json", "cloud-hypervisor.sh"}

// plainNames are names of disks that a shell, an option of QEMU and XML take as they are.
var plainNames = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)

// newOutput refuses places that are taken.
func newOutput(disk string, force bool) (output, error) {
	disk, err := filepath.Abs(disk)
	if err != nil {
		return output{}, err
	}
	if !plainNames.MatchString(filepath.Base(disk)) {
		return output{}, &lab.InputError{Err: fmt.Errorf("--output: the name %q: letters, digits, dots, hyphens and underscores, as it stands in start files", filepath.Base(disk))}
	}
	o := output{disk: disk, stem: strings.TrimSuffix(disk, filepath.Ext(disk)), force: force}
	if info, err := os.Stat(filepath.Dir(disk)); err != nil || !info.IsDir() {
		return o, &lab.InputError{Err: fmt.Errorf("--output: %s is not a directory", filepath.Dir(disk))}
	}
	for _, name := range o.names() {
		info, err := os.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return o, &lab.InputError{Err: fmt.Errorf("--output: %w", err)}
		case !info.Mode().IsRegular() && info.Mode().Type() != fs.ModeSymlink:
			return o, &lab.InputError{Err: fmt.Errorf("--output: %s is a directory or a device, which no file replaces: remove it or choose another name", name)}
		case !force:
			return o, &lab.InputError{Err: fmt.Errorf("%s exists; say --force to replace it", name)}
		}
	}
	return o, nil
}

// beside is the path of the file with an ending.
func (o output) beside(ending string) string { return o.stem + "." + ending }

// names are the paths of all files, the disk first.
func (o output) names() []string {
	all := []string{o.disk}
	for _, ending := range beside {
		all = append(all, o.beside(ending))
	}
	return all
}

// write puts everything into its place: all of it, or nothing.
func (o output) write(ctx context.Context, raw string, of Options, parts containerhost.Parts) (err error) {
	dir, done, err := o.workplace()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	at := func(name string) string { return filepath.Join(dir, filepath.Base(name)) }
	if err := converted(ctx, raw, at(o.disk), of.Format); err != nil {
		return err
	}
	for ending, file := range map[string]string{"vmlinuz": parts.Kernel.Path, "vmlinux": parts.ELF.Path} {
		if err := run(ctx, "cp", file, at(o.beside(ending))); err != nil {
			return err
		}
	}
	starts, err := starts(filepath.Base(o.disk), filepath.Dir(o.disk), of)
	if err != nil {
		return err
	}
	for ending, text := range starts {
		if err := os.WriteFile(at(o.beside(ending)), []byte(text), 0o644); err != nil {
			return driver.Labf("start files: %w", err)
		}
	}
	for _, name := range o.names() {
		if err := os.Chmod(at(name), modeOf(name, o.disk)); err != nil {
			return driver.Labf("files of the image: %w", err)
		}
	}
	return o.publish(at)
}

// modeOf is a file's mode. The disk holds its host's private keys from its first boot on.
func modeOf(name, disk string) fs.FileMode {
	switch {
	case name == disk:
		return 0o600
	case strings.HasSuffix(name, ".sh"):
		return 0o755
	}
	return 0o644
}

// workplace is a directory next to the image that this build alone has, and what removes
// it. What a killed build left in it goes first.
func (o output) workplace() (dir string, done func() error, err error) {
	dir = filepath.Join(filepath.Dir(o.disk), "."+filepath.Base(o.disk)+".tare-image")
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", nil, &lab.InputError{Err: fmt.Errorf("--output: %w", err)}
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, driver.Labf("%s: %w", dir, err)
	}
	f := os.NewFile(uintptr(fd), dir)
	done = func() error { return errors.Join(sys.RemoveTree(dir), f.Close()) }
	if err := ours(f); err != nil {
		return "", nil, errors.Join(&lab.InputError{Err: fmt.Errorf("--output: %w", err)}, f.Close())
	}
	left, err := f.Readdirnames(-1)
	for _, name := range left {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, name)))
	}
	if err != nil {
		return "", nil, errors.Join(driver.Labf("%s: %w", dir, err), done())
	}
	return dir, done, nil
}

// ours takes an open directory for this build; it must be this user's alone.
func ours(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return fmt.Errorf("%s is another user's: remove it", f.Name())
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("another build writes to %s", f.Name())
	}
	return nil
}

// publish moves the files to their places. Where one cannot be there, none is, and what
// stood in the places before stands there again.
func (o output) publish(at func(string) string) error {
	var moved []func() error // takes one back
	for _, name := range o.names() {
		back, err := o.move(at(name), name)
		if err == nil {
			moved = append(moved, back)
			continue
		}
		errs := []error{&lab.InputError{Err: fmt.Errorf("%s: %w", name, err)}}
		for _, back := range slices.Backward(moved) {
			errs = append(errs, back())
		}
		return errors.Join(errs...)
	}
	return nil
}

// move puts a file into its place. What stood there is kept where the file was made.
func (o output) move(made, name string) (back func() error, err error) {
	rename := func(flags uint) error { return unix.Renameat2(unix.AT_FDCWD, made, unix.AT_FDCWD, name, flags) }
	err = rename(unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) { // a file system such as NFS, which renames without flags alone
		return o.link(made, name)
	}
	if !o.force || !errors.Is(err, unix.EEXIST) {
		return func() error { return os.Remove(name) }, err
	}
	back = func() error { return rename(unix.RENAME_EXCHANGE) }
	if err := back(); err != nil {
		return nil, err
	}
	if info, err := os.Lstat(made); err != nil || info.IsDir() { // it came after newOutput looked
		return nil, errors.Join(unix.EISDIR, err, back())
	}
	return back, nil
}

// link is move on file systems whose rename has no flags.
func (o output) link(made, name string) (back func() error, err error) {
	before := made + ".before"
	if o.force {
		if err := os.Rename(name, before); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	restore := func() error {
		if err := os.Rename(before, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.Link(made, name); err != nil { // which replaces nothing
		return nil, errors.Join(err, restore())
	}
	return func() error { return errors.Join(os.Remove(name), restore()) }, nil
}

// converted makes the disk in its format; qcow2 is packed.
func converted(ctx context.Context, raw, disk, format string) error {
	args := []string{"convert", "-f", "raw", "-O", format}
	if format == "qcow2" {
		args = append(args, "-c", "-o", "compression_type=zstd")
	}
	return run(ctx, "qemu-img", append(args, raw, disk)...)
}
