package image

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/debian"
	"github.com/tarelab/tare/internal/limit"
)

// debianLayer writes the files of packages as one layer, in the order of the packages, and
// dpkg's database of them: unpacked, not configured.
type debianLayer struct {
	out       *tar.Writer
	have      map[string]bool
	status    bytes.Buffer // of dpkg
	info      tree         // files of dpkg's database
	passwords tree         // what base-passwd's script would copy
}

func newDebianLayer(w io.Writer) *debianLayer {
	return &debianLayer{out: tar.NewWriter(w), have: map[string]bool{}, info: tree{}, passwords: tree{}}
}

// add adds a package to the database and, where files is true, its files.
func (l *debianLayer) add(ctx context.Context, p debian.Package, files bool) error {
	control, err := p.Control(ctx)
	if err != nil {
		return err
	}
	c := contents{conffiles: map[string]string{}, list: []string{"/."}}
	for name := range strings.Lines(string(control["conffiles"])) {
		if name = strings.TrimSpace(name); strings.HasPrefix(name, "/") { // else a flag stands before it: of one to remove
			c.conffiles[name] = ""
		}
	}
	err = p.Files(ctx, func(h *tar.Header, r io.Reader) error { return l.entry(&c, h, r, files) })
	if err != nil {
		return err
	}
	l.describe(p, control, c, files)
	return nil
}

// contents is what dpkg's database says of a package's files.
type contents struct {
	list      []string          // names, as the package has them
	conffiles map[string]string // MD5 by name
}

// describe adds a package to the database.
func (l *debianLayer) describe(p debian.Package, control map[string][]byte, c contents, files bool) {
	description := strings.TrimRight(string(control["control"]), "\n")
	first, rest, _ := strings.Cut(description, "\n") // Package: NAME
	fmt.Fprintf(&l.status, "%s\nStatus: install ok unpacked\n%s\n", first, rest)
	if len(c.conffiles) > 0 {
		fmt.Fprintln(&l.status, "Conffiles:")
		for _, name := range c.list {
			if sum := c.conffiles[name]; sum != "" {
				fmt.Fprintf(&l.status, " %s %s\n", name, sum)
			}
		}
	}
	fmt.Fprintln(&l.status)
	if !files {
		return
	}
	name := p.Name
	if slices.Contains(strings.Split(description, "\n"), "Multi-Arch: same") {
		name += ":" + p.Architecture
	}
	for file, data := range control {
		if file == "control" || file == "conffiles" {
			continue
		}
		perm := fs.FileMode(0o644)
		if slices.Contains([]string{"preinst", "postinst", "prerm", "postrm", "config"}, file) {
			perm = 0o755
		}
		l.info.put(path.Join("/var/lib/dpkg/info", name+"."+file), perm, string(data))
	}
	l.info.put(path.Join("/var/lib/dpkg/info", name+".list"), 0o644, strings.Join(c.list, "\n")+"\n")
}

// database are the files of dpkg's database, and the accounts of the base system.
func (l *debianLayer) database() tree {
	l.info.put("/var/lib/dpkg/status", 0o644, l.status.String())
	l.info.put("/var/lib/dpkg/info/format", 0o644, "1\n")
	maps.Copy(l.info, l.passwords)
	return l.info
}

// accounts are the files that base-passwd's script copies.
var accounts = map[string]string{"usr/share/base-passwd/passwd.master": "/etc/passwd", "usr/share/base-passwd/group.master": "/etc/group"}

// entry takes one entry of a package; where files is false, only the database's part.
func (l *debianLayer) entry(c *contents, h *tar.Header, r io.Reader, files bool) error {
	if h.Name == "." {
		return nil
	}
	c.list = append(c.list, "/"+h.Name)
	if _, conf := c.conffiles["/"+h.Name]; conf {
		sum := md5.New() // which dpkg keeps
		var kept bytes.Buffer
		if _, err := io.Copy(io.MultiWriter(sum, &kept), limit.PackageControl.Reader(r)); err != nil {
			return err
		}
		c.conffiles["/"+h.Name], r = hex.EncodeToString(sum.Sum(nil)), &kept
	}
	if !files || slim(h.Name) {
		return nil
	}
	return l.write(h, r)
}

// write writes an entry with the directories above it, once.
func (l *debianLayer) write(h *tar.Header, r io.Reader) error {
	h.Name = merged(h.Name)
	if h.Typeflag == tar.TypeLink {
		h.Linkname = merged(h.Linkname)
	}
	if l.have[h.Name] {
		if h.Typeflag == tar.TypeDir || slices.Contains(splitUsr, h.Name) {
			return nil
		}
		return errors.New("two packages have this file")
	}
	if err := l.above(h.Name); err != nil {
		return err
	}
	if to, is := accounts[h.Name]; is {
		data, err := limit.Accounts.ReadAll(r)
		if err != nil {
			return err
		}
		l.passwords.put(to, 0o644, string(data))
		r = bytes.NewReader(data)
	}
	l.have[h.Name] = true
	h.Uname, h.Gname, h.PAXRecords, h.Format = "", "", nil, tar.FormatPAX
	if h.Typeflag == tar.TypeDir {
		h.Name += "/"
	}
	if err := l.out.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(l.out, r)
	return err
}

// above writes the directories above a name, where no package has.
func (l *debianLayer) above(name string) error {
	dir := path.Dir(name)
	if dir == "." || l.have[dir] {
		return nil
	}
	if err := l.above(dir); err != nil {
		return err
	}
	l.have[dir] = true
	return l.out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, Format: tar.FormatPAX})
}

func (l *debianLayer) link(name, to string) error {
	return l.write(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777}, strings.NewReader(""))
}

// merged is where a name leads on a Debian whose /bin, /lib and /sbin are links.
func merged(name string) string {
	top, _, below := strings.Cut(name, "/")
	if below && slices.Contains(splitUsr, top) {
		return "usr/" + name
	}
	return name
}

// close writes what no package had and ends the layer.
func (l *debianLayer) close(rest tree) error {
	for _, k := range rest.sorted() {
		if e := rest[k]; !e.mode.IsDir() && !l.have[k] {
			if err := l.above(k); err != nil {
				return err
			}
			if err := e.write(l.out, k); err != nil {
				return fmt.Errorf("/%s: %w", k, err)
			}
		}
	}
	return l.out.Close()
}
