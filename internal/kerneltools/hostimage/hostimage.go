// Package hostimage makes a container host that people can take away: a disk that
// boots by itself, with the trimmed kernel, a container engine, network and a way to
// log in, its kernel apart, and files that start it on several virtual machine
// monitors. It also starts such a disk on this machine.
package hostimage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/kerneltools/containerhost"
	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/needs"
)

// Formats are those of disks, by qemu-img's names. The first is the default.
var Formats = []string{"qcow2", "raw", "vmdk", "vdi"}

// engines are the Debian packages of each engine and what its kernel needs besides.
var engines = map[string]struct {
	packages, needs []string
}{
	"docker":     {packages: []string{"docker.io", "containerd", "runc", "iptables"}},
	"containerd": {packages: []string{"containerd", "containernetworking-plugins", "runc", "iptables"}},
	"podman":     {packages: []string{"podman", "crun", "netavark", "aardvark-dns", "iptables"}, needs: []string{"podman"}},
}

// Engines are the engines that an image may hold, in alphabetical order.
func Engines() []string { return slices.Sorted(maps.Keys(engines)) }

// Options say what an image holds and where it is put.
type Options struct {
	Output   string   // path of the disk; the files beside it have its name without the ending
	Format   string   // one of Formats; "" is what the ending of Output says
	Engine   string   // one of Engines
	Keys     []string // texts of files with public SSH keys that may log in as root
	Console  bool     // whoever has the serial console is root, without a password
	Seed     bool     // no login is built in: each start passes a key in
	Hostname string   //
	Needs    []string // of the kernel, beside those of every image
	Size     int64    // of the disk, bytes
	Force    bool     // files that are there are replaced

	stock bool // the kernel, the initramfs and the units are Debian's own
}

// smallestDisk is less than a Debian system with an engine fits in, in bytes.
const smallestDisk = 1 << 30

// hostnames are those that a name server takes (RFC 1123).
var hostnames = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Settle fills in what is not said, and refuses options that no image can follow.
func (o *Options) Settle() error {
	if o.Output == "" {
		return errors.New("--output: name the disk's file, such as host.qcow2")
	}
	ending := strings.TrimPrefix(filepath.Ext(o.Output), ".")
	if ending == "img" {
		ending = "raw"
	}
	o.Format = cmp.Or(o.Format, ending, Formats[0])
	if !slices.Contains(Formats, o.Format) {
		return fmt.Errorf("no disk format %q: there are %s; --format says which where the file's ending does not", o.Format, strings.Join(Formats, ", "))
	}
	if _, ok := engines[o.Engine]; !ok {
		return fmt.Errorf("--engine %q: there are %s", o.Engine, strings.Join(Engines(), ", "))
	}
	switch {
	case len(o.Keys) == 0 && !o.Console && !o.Seed:
		return errors.New("nobody could log in: name a public key with --ssh-key, or say --console or --seed")
	case !hostnames.MatchString(o.Hostname):
		return fmt.Errorf("--hostname %q: lower-case letters, digits and hyphens, at most 63", o.Hostname)
	case o.Size < smallestDisk:
		return fmt.Errorf("--size: %d bytes; at least 1GiB", o.Size)
	}
	for _, id := range o.Needs {
		if _, err := needs.Load(id); err != nil {
			return fmt.Errorf("--needs: %w", err)
		}
	}
	_, err := authorized(o.Keys)
	return err
}

// authorized is the text of authorized_keys: the keys with their options, without
// comments, which name people and the machines that they work on. A line that is
// no key is an error: who meant it to be one could not log in.
func authorized(files []string) (string, error) {
	var out strings.Builder
	for _, text := range files {
		if strings.Contains(text, "PRIVATE KEY-----") {
			return "", errors.New("--ssh-key: this is a private key, which must not go into an image: name the file that ends in .pub")
		}
		found := 0
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(line))
			if err != nil {
				return "", fmt.Errorf("--ssh-key: the line %.60q is no public key of SSH", line)
			}
			if len(options) > 0 {
				out.WriteString(strings.Join(options, ",") + " ")
			}
			out.Write(ssh.MarshalAuthorizedKey(key))
			found++
			if err := limit.SSHKeys.CheckItems(found); err != nil {
				return "", fmt.Errorf("--ssh-key: %w", err)
			}
		}
		if found == 0 {
			return "", fmt.Errorf("--ssh-key: no public key of SSH in %.60q", text)
		}
	}
	return out.String(), nil
}

// imageNeeds are those of every image's kernel beside a container host's.
var imageNeeds = []string{"gpt", "power-button", "credentials", "hardening"}

// foreign are the needs of monitors that have their own disk formats.
var foreign = map[string][]string{"vmdk": {"vmware"}, "vdi": {"virtualbox"}}

// packages are those of every image: the smallest system with systemd, a network and
// SSH.
var packages = []string{
	"systemd", "systemd-sysv", "dbus", "udev", "kmod", "procps", "iproute2", "openssh-server",
	"systemd-resolved", "systemd-timesyncd", "ca-certificates",
}

// thin are mmdebstrap's options that leave manuals and translations out.
var thin = []string{
	"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-include=/usr/share/doc/*/copyright", "--dpkgopt=path-exclude=/usr/share/man/*",
	"--dpkgopt=path-exclude=/usr/share/locale/*", "--dpkgopt=path-exclude=/usr/share/info/*",
}

// Built is what was made.
type Built struct {
	Disk   string   `json:"disk"`
	Files  []string `json:"files"` // the disk, the kernels and what starts them
	Kernel string   `json:"kernel"`
	Format string   `json:"format"`
	Engine string   `json:"engine"`
	// Bytes are sizes: "kernel", "elf", "disk" (the file), "used" (what the system's files take).
	Bytes map[string]int64 `json:"bytes"`
}

// Build makes an image and the files beside it. Where it ends early, nothing of it is
// left. lab.RunDir takes what is under way.
func Build(ctx context.Context, lab driver.Lab, o Options, tell func(string)) (b Built, err error) {
	if !lab.Root {
		return b, &driver.CannotError{Target: "trim image", Lacks: "making a system's files needs root", Remedy: "run it as root"}
	}
	if err := tools(); err != nil {
		return b, err
	}
	out, err := newOutput(o.Output, o.Force)
	if err != nil {
		return b, err
	}
	parts, err := containerhost.Make(ctx, lab, containerhost.Order{
		Packages: slices.Concat(packages, engines[o.Engine].packages), Options: thin,
		Needs: slices.Concat(imageNeeds, engines[o.Engine].needs, foreign[o.Format], o.Needs),
	}, tell)
	if err != nil {
		return b, err
	}
	work, err := os.MkdirTemp(lab.RunDir, driver.Label+"-image-")
	if err != nil {
		return b, driver.Labf("%w", err)
	}
	defer func() { err = errors.Join(err, sys.RemoveTree(work)) }()
	tell("making the disk")
	raw, err := assembled(ctx, work, parts.Tree, o, parts.Kernel.Path)
	if err != nil {
		return b, err
	}
	b = Built{Disk: out.disk, Kernel: parts.Kernel.Version, Format: o.Format, Engine: o.Engine, Bytes: map[string]int64{}}
	if b.Bytes["used"], err = allocated(raw); err != nil {
		return b, driver.Labf("%w", err)
	}
	if err := out.write(ctx, raw, o, parts); err != nil {
		return b, err
	}
	b.Files = out.names()
	if b.Bytes["disk"], err = allocated(out.disk); err != nil {
		return b, driver.Labf("%w", err)
	}
	for what, file := range map[string]string{"kernel": out.beside("vmlinuz"), "elf": out.beside("vmlinux")} {
		info, err := os.Stat(file)
		if err != nil {
			return b, driver.Labf("%w", err)
		}
		b.Bytes[what] = info.Size()
	}
	return b, nil
}

// assembled makes the raw disk of a tree's copy, below work.
func assembled(ctx context.Context, work, from string, o Options, kernel string) (string, error) {
	tree, raw := filepath.Join(work, "tree"), filepath.Join(work, "disk.raw")
	if err := run(ctx, "cp", "-a", from, tree); err != nil {
		return "", err
	}
	if err := furnish(tree, o, kernel); err != nil {
		return "", driver.Labf("files of the image: %w", err)
	}
	return raw, partitioned(ctx, raw, tree, o.Size)
}

// allocated is the room that a file takes on its disk, in bytes.
func allocated(file string) (int64, error) {
	var st unix.Stat_t
	err := unix.Stat(file, &st)
	return st.Blocks * 512, err
}

// needed are the programs that make a disk, and the Debian packages that have them.
var needed = []struct{ program, pack string }{
	{"mke2fs", "e2fsprogs"}, {"sfdisk", "fdisk"}, {"qemu-img", "qemu-utils"}, {"grub-mkimage", "grub-common"},
}

// bootSector is GRUB's first sector; the rest of GRUB is made for the disk.
const (
	grubDir    = "/usr/lib/grub/i386-pc"
	bootSector = grubDir + "/boot.img"
)

// tools names what is missing before anything is made.
func tools() error {
	var lacks, get []string
	for _, n := range needed {
		if _, err := exec.LookPath(n.program); err != nil {
			lacks, get = append(lacks, n.program), append(get, n.pack)
		}
	}
	if _, err := os.Stat(bootSector); err != nil {
		lacks, get = append(lacks, bootSector), append(get, "grub-pc-bin")
	}
	if len(lacks) == 0 {
		return nil
	}
	return &driver.CannotError{Target: "trim image", Lacks: strings.Join(lacks, ", ") + ": not installed", Remedy: "apt-get install " + strings.Join(get, " ")}
}

// run runs a program, which ends with tare; its error holds the end of its words.
func run(ctx context.Context, program string, args ...string) error {
	return fed(ctx, "", program, args...)
}

// fed is run with a text on standard input.
func fed(ctx context.Context, input, program string, args ...string) error {
	c := exec.CommandContext(ctx, program, args...)
	c.Env = append(os.Environ(), "LC_ALL=C")
	c.Stdin = strings.NewReader(input)
	sys.EndsWithUs(c)
	said, err := c.CombinedOutput()
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	return driver.Labf("%s: %w: %s", program, err, bytes.TrimSpace(said[max(0, len(said)-500):]))
}
