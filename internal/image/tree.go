package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// maxLinks is how many symbolic links one path may pass through, as in Linux
// (include/linux/namei.h, MAXSYMLINKS).
const maxLinks = 40

// entry is one file of a tree. Exactly one of link, source and data says what
// it holds; a directory has none.
type entry struct {
	mode   fs.FileMode // type, permissions and the sticky bit
	link   string      // target of a symbolic link
	source string      // host path of the contents
	data   string      // the contents themselves
}

// tree is a file system in the making: paths without the leading slash.
type tree map[string]entry

// key is the tree's name of an absolute path.
func key(p string) string { return strings.TrimPrefix(path.Clean("/"+p), "/") }

// dir adds a directory and its parents where they are missing.
func (t tree) dir(p string, perm fs.FileMode) {
	k := key(p)
	if k == "" {
		return
	}
	if _, there := t[k]; there {
		return
	}
	t.dir(path.Dir("/"+k), 0o755)
	t[k] = entry{mode: fs.ModeDir | perm}
}

// put adds a file with the given contents.
func (t tree) put(p string, perm fs.FileMode, data string) {
	t.dir(path.Dir(p), 0o755)
	t[key(p)] = entry{mode: perm, data: data}
}

// symlink adds a symbolic link unless the path is taken.
func (t tree) symlink(p, target string) {
	if _, there := t[key(p)]; there {
		return
	}
	t.dir(path.Dir(p), 0o755)
	t[key(p)] = entry{mode: fs.ModeSymlink | 0o777, link: target}
}

// host copies one path of the machine into the tree, at the same place, with
// every symbolic link on the way, and returns where the last one leads.
// Permissions are made uniform, so that the same contents give the same digest.
func (t tree) host(p string) (real string, err error) {
	rest := strings.Split(strings.TrimPrefix(path.Clean(p), "/"), "/")
	at, links := "/", 0
	for len(rest) > 0 {
		next := path.Join(at, rest[0])
		rest = rest[1:]
		info, err := os.Lstat(next)
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			t.copy(next, info)
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s: more than %d symbolic links", p, maxLinks)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		t[key(next)] = entry{mode: fs.ModeSymlink | 0o777, link: target}
		if !path.IsAbs(target) {
			target = path.Join(at, target)
		}
		rest = append(strings.Split(strings.TrimPrefix(path.Clean(target), "/"), "/"), rest...)
		at = "/"
		if rest[0] == "" { // the target is the root itself
			rest = rest[1:]
		}
	}
	return at, nil
}

// copy adds a directory or a regular file of the machine.
func (t tree) copy(p string, info fs.FileInfo) {
	switch {
	case info.IsDir():
		t.dir(p, 0o755)
	case info.Mode().IsRegular():
		perm := fs.FileMode(0o644)
		if info.Mode()&0o111 != 0 {
			perm = 0o755
		}
		t[key(p)] = entry{mode: perm, source: p}
	}
}

// hostTree copies a whole directory of the machine; what is neither file, link
// nor directory is left out.
func (t tree) hostTree(dir string) error {
	real, err := t.host(dir)
	if err != nil {
		return err
	}
	return filepath.WalkDir(real, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 {
			// A link out of the directory brings what it leads to; a dangling
			// one is kept as it is.
			if _, err := t.host(p); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		t.copy(p, info)
		return nil
	})
}

// without is what t has and base has not, or has otherwise.
func (t tree) without(base tree) tree {
	rest := tree{}
	for k, e := range t {
		if b, there := base[k]; !there || b != e {
			rest[k] = e
		}
	}
	return rest
}

// sorted are the tree's names in order.
func (t tree) sorted() []string { return slices.Sorted(maps.Keys(t)) }

// write writes the tree as a tar stream that depends on nothing but the tree:
// sorted, owned by root, without times.
func (t tree) write(w io.Writer) error {
	out := tar.NewWriter(w)
	for _, k := range t.sorted() {
		if err := t[k].write(out, k); err != nil {
			return fmt.Errorf("/%s: %w", k, err)
		}
	}
	return out.Close()
}

func (e entry) write(out *tar.Writer, key string) error {
	h := &tar.Header{Name: key, Mode: int64(e.mode.Perm()), Format: tar.FormatPAX}
	if e.mode&fs.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	switch {
	case e.mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, key+"/"
		return out.WriteHeader(h)
	case e.mode&fs.ModeSymlink != 0:
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
		return out.WriteHeader(h)
	case e.source != "":
		return copyFile(out, h, e.source)
	}
	h.Typeflag, h.Size = tar.TypeReg, int64(len(e.data))
	if err := out.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.WriteString(out, e.data)
	return err
}

// copyFile writes a file as long as it was when it was opened; one that
// shrinks meanwhile is an error.
func copyFile(out *tar.Writer, h *tar.Header, source string) error {
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := out.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.CopyN(out, f, h.Size)
	return err
}
