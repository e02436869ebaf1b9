package image

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Tool is one program of the workbench.
type Tool struct {
	Name    string // as it is called
	Path    string // on this machine; "" when it is not installed
	Package string // of Debian and its kin, which brings it
	Setup   string // command that installs it
	// Apart: it comes into a root only where ForCommands is asked for it. With its
	// libraries it is many times as large as the rest, and a guest that boots from the
	// root unpacks all of it.
	Apart bool
	dirs  string // pattern of directories in which it is looked for first
}

// tools are the workbench's programs. busybox is first: the others need
// nothing of it, but payloads of several processes need its shell.
func tools() []Tool {
	return []Tool{
		{Name: "busybox", Package: "busybox-static", Setup: setup},
		{Name: "iperf3", Package: "iperf3", Setup: setup}, // also far ends run it (lab.startFar)
		{Name: "sysbench", Package: "sysbench", Setup: setup, Apart: true},
		{Name: "fio", Package: "fio", Setup: setup, Apart: true},
		{Name: "redis-server", Package: "redis-server", Setup: setupApplications, Apart: true},
		{Name: "nginx", Package: "nginx", Setup: setupApplications, Apart: true},
		{Name: "postgres", Package: "postgresql", Setup: setupApplications, Apart: true, dirs: postgresDirs},
		{Name: "initdb", Package: "postgresql", Setup: setupApplications, Apart: true, dirs: postgresDirs},
	}
}

// The commands that install tools: the second is for those that few want
// (internal/setup/packages.yaml).
const (
	setup             = "tare setup"
	setupApplications = "tare setup --study applications"
)

// postgresDirs are where Debian has PostgreSQL's programs, by version.
const postgresDirs = "/usr/lib/postgresql/*/bin"

// find is where a tool is on this machine. The error is fs.ErrNotExist where it is not.
func (t Tool) find() (string, error) {
	search := searchPath
	if dirs, err := filepath.Glob(t.dirs); err == nil && len(dirs) > 0 {
		search = dirs[len(dirs)-1] + ":" + search // the newest
	}
	return lookPath(t.Name, search)
}

// link is where payloads find a tool, whatever the machine's own place.
func (t Tool) link() string { return path.Join("/usr/bin", t.Name) }

// searchPath is where the workbench's programs are looked for: a user's PATH
// often lacks the sbin directories.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// workbench makes the tree of the workbench image: the tools that are
// installed with their libraries, a minimal /etc, and the guest binaries.
func workbench(ctx context.Context, guest map[string][]byte) (tree, []Tool, error) {
	t := skeleton()
	found := tools()
	link := newLinker(t)
	for i := range found {
		p, err := found[i].find()
		if notExist(err) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if found[i].Apart {
			found[i].Path = p
			continue
		}
		if err := addProgram(t, link, p); err != nil {
			return nil, nil, fmt.Errorf("workbench image: %w", err)
		}
		t.symlink(found[i].link(), p)
		found[i].Path = p
	}
	if box := found[0].Path; box != "" {
		if err := applets(ctx, t, box); err != nil {
			return nil, nil, err
		}
	}
	addGuest(t, guest)
	addLibraries(t, link, guest)
	return t, found, nil
}

// addLibraries puts the libraries of the dynamic guest binaries into the tree: those of
// this machine's distribution. Where it has others, as one with musl has, they cannot
// run in the root, which Root.Misses then shows.
func addLibraries(t tree, link *linker, guest map[string][]byte) {
	for _, p := range slices.Sorted(maps.Keys(guest)) {
		o, err := objectOf(p, bytes.NewReader(guest[p]))
		if err != nil || o.interp == "" {
			continue // a static program
		}
		apart := *link
		apart.tree = tree{}
		if err := apart.program(o); err == nil {
			maps.Copy(t, apart.tree)
		}
	}
}

// addGuest puts the guest binaries, executable, at their paths.
func addGuest(t tree, guest map[string][]byte) {
	for p, b := range guest {
		t.put(p, 0o755, string(b))
	}
}

// skeleton is what a root needs beside programs. Directories that are links on
// this machine (/bin on most) are the same links here, so that the paths of
// programs and libraries mean the same.
func skeleton() tree {
	t := tree{}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/usr/bin", "/usr/sbin", "/usr/lib"} {
		if _, err := t.host(dir); err != nil {
			t.dir(dir, 0o755)
		}
	}
	for _, dir := range []string{"/proc", "/sys", "/dev", "/run", "/etc", "/var/tmp"} {
		t.dir(dir, 0o755)
	}
	// Without the loader's cache every dynamic program would search a dozen
	// directories that are not there: a cost that the host does not have. What it
	// names beyond the image's libraries, nobody asks for. A system without one
	// (musl) needs none.
	_, _ = t.host("/etc/ld.so.cache") // an error is its absence
	t.dir("/root", 0o700)
	t.dir("/tmp", 0o777|fs.ModeSticky)
	t.put("/etc/passwd", 0o644, "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
	t.put("/etc/group", 0o644, "root:x:0:\nnogroup:x:65534:\n")
	t.put("/etc/hosts", 0o644, "127.0.0.1\tlocalhost\n::1\tlocalhost\n")
	t.put("/etc/resolv.conf", 0o644, "")
	t.put("/etc/nsswitch.conf", 0o644, "passwd: files\ngroup: files\nhosts: files dns\n")
	return t
}

// applets links busybox's applets to it, at the paths that it names itself and
// in /bin, where no other program stands.
func applets(ctx context.Context, t tree, box string) error {
	out, err := exec.CommandContext(ctx, box, "--list-full").Output()
	if err != nil {
		return fmt.Errorf("%s --list-full: %w", box, err)
	}
	for _, applet := range strings.Fields(string(out)) {
		if applet == "linuxrc" { // the init of an old kind of initrd, in the root directory
			continue
		}
		dir, err := t.host(path.Join("/", path.Dir(applet)))
		if err != nil {
			dir = path.Join("/", path.Dir(applet))
		}
		t.symlink(path.Join(dir, path.Base(applet)), box)
	}
	return nil
}

// addProgram puts a program and its libraries into the tree.
func addProgram(t tree, link *linker, p string) error {
	if _, err := t.host(p); err != nil {
		return err
	}
	o, err := readObject(p)
	if err != nil {
		return err
	}
	return link.program(o)
}

// lookPath finds an executable file along a PATH. Its error is fs.ErrNotExist
// where there is none.
func lookPath(name, search string) (string, error) {
	for _, dir := range strings.Split(search, ":") {
		if dir == "" || !path.IsAbs(dir) {
			continue // the current directory in PATH is a trap, not a place
		}
		p := path.Join(dir, name)
		info, err := os.Stat(p)
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return p, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, fs.ErrNotExist)
}
