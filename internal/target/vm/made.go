package vm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/kernel/kconfig"
	"github.com/tarelab/tare/internal/kernel/trim"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/target"
	"github.com/tarelab/tare/internal/vmm"
	"github.com/tarelab/tare/needs"
)

// hostSuite and hostPackages are the container host's: Debian's smallest system
// with systemd, its cloud kernel, Docker, Podman and two OCI runtimes. Without AppArmor's
// programs Docker refuses to work on a kernel that has AppArmor.
const hostSuite = "bookworm"

var hostPackages = []string{
	"systemd", "systemd-sysv", "dbus", "udev", "kmod", "procps", "docker.io", "containerd", "podman", "runc", "crun", "iptables", "apparmor",
	"busybox-static", "iproute2", "initramfs-tools", "linux-image-cloud-amd64", "zstd",
}

// hostSource and hostNeeds are the trimmed kernel's: one for both machine types.
// The distribution's iptables speaks to nf_tables.
const hostSource = "linux-source-6.1"

var hostNeeds = []string{"docker", "nftables", "ext4", "systemd", "virtio-pci", "virtio-mmio"}

// hostDisk is the size of the disk, in bytes; what is not written to takes no
// room on the host.
const hostDisk = 4 << 30

// made are the parts of container hosts, kept between processes: the
// distribution's files, the disk, and trimmed kernels.
type made struct {
	lab  target.Lab
	home *home
	dir  string
	mu   sync.Mutex        // guards what follows, and one making at a time
	keys map[string]string // of disks, by image
}

func newMade(lab target.Lab, h *home) *made {
	return &made{lab: lab, home: h, dir: filepath.Join(h.dir, "hosts"), keys: map[string]string{}}
}

// locked runs what makes parts, one process at a time.
func (m *made) locked(ctx context.Context, tell func(string), do func() error) error {
	if m.lab.CacheDir == "" {
		return &target.CannotError{Target: "vm", Lacks: "there is no directory to keep the disk and kernels in", Remedy: "set HOME or XDG_CACHE_HOME"}
	}
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return target.Labf("container host: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(m.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return target.Labf("container host: %w", err)
	}
	defer f.Close()
	for told := false; unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil; told = true {
		if !told {
			tell("waiting for another process that makes the container host")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
	return do()
}

// base is the distribution's tree, made by mmdebstrap.
func (m *made) base(ctx context.Context, tell func(string)) (string, error) {
	dir := m.baseDir()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	program, err := exec.LookPath("mmdebstrap")
	if err != nil {
		return "", &target.CannotError{Target: "vm", Lacks: "mmdebstrap is not installed", Remedy: "apt-get install mmdebstrap"}
	}
	tell("making the container host's files with mmdebstrap (about a minute)")
	tmp := dir + ".tmp"
	if err := sys.RemoveTree(tmp); err != nil {
		return "", target.Labf("container host: %w", err)
	}
	args := []string{"--variant=minbase", "--mode=root", "--include=" + strings.Join(hostPackages, ","), hostSuite, tmp}
	if err := m.command(ctx, "mmdebstrap.log", program, args...); err != nil {
		return "", err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return "", target.Labf("container host: %w", err)
	}
	return dir, nil
}

func (m *made) baseDir() string {
	return filepath.Join(m.dir, "base-"+digest(hostSuite, strings.Join(hostPackages, ","))[:16])
}

// command runs a program that takes long, whose words are kept.
func (m *made) command(ctx context.Context, log, program string, args ...string) error {
	f, err := os.Create(filepath.Join(m.dir, log))
	if err != nil {
		return target.Labf("container host: %w", err)
	}
	defer f.Close()
	c := exec.CommandContext(ctx, program, args...)
	c.Stdout, c.Stderr = f, f
	c.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return unix.Kill(-c.Process.Pid, unix.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	if err := c.Run(); err != nil {
		text, rerr := os.ReadFile(f.Name())
		return errors.Join(ctx.Err(), target.Labf("%s: %w: %s (all of it: %s)", filepath.Base(program), err, lastWords(text), f.Name()), rerr)
	}
	return nil
}

// digest names a thing by what it is made of.
func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// diskKey names the disk with an image in it.
func (m *made) diskKey(oci string) (string, error) {
	index, err := os.ReadFile(filepath.Join(oci, "index.json"))
	if err != nil {
		return "", target.Labf("image: %w", err)
	}
	agent, err := sys.FileDigest(m.lab.InitPath)
	if err != nil {
		return "", target.Labf("the guest's agent: %w", err)
	}
	return digest(m.baseDir(), string(index), agent, hostUnits, string(proofBundle()))[:16], nil
}

func (m *made) diskFile(key string) string { return filepath.Join(m.dir, "disk-"+key+".ext4") }

// disk is the container host's, with an image loaded into its Docker.
func (m *made) disk(ctx context.Context, h *Host, oci string, tell func(string)) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key, ok := m.keys[oci]
	if !ok {
		var err error
		if key, err = m.diskKey(oci); err != nil {
			return "", err
		}
		m.keys[oci] = key
	}
	file := m.diskFile(key)
	now := time.Now() // of last use; no measurement
	if os.Chtimes(file, now, now) == nil {
		return file, nil
	}
	if err := m.sweep(); err != nil {
		return "", target.Labf("container host: %w", err)
	}
	base, err := m.base(ctx, tell)
	if err != nil {
		return "", err
	}
	tmp := file + ".tmp"
	defer os.Remove(tmp)
	tell("making the container host's disk")
	if err := m.fill(ctx, base, oci, tmp); err != nil {
		return "", err
	}
	tell("booting it once with the distribution's kernel, to load the workbench into its Docker (a minute or two)")
	if err := m.load(ctx, h, tmp); err != nil {
		return "", fmt.Errorf("container host: the boot that completes its disk: %w", err)
	}
	if err := os.Rename(tmp, file); err != nil {
		return "", target.Labf("container host: %w", err)
	}
	return file, nil
}

// sweep removes disks that nobody has used for long, and what killed processes
// left.
func (m *made) sweep() error {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // another process has removed it
		}
		age := time.Since(info.ModTime())
		disk, left := strings.HasPrefix(e.Name(), "disk-"), strings.HasPrefix(e.Name(), "tree-") || strings.HasSuffix(e.Name(), ".tmp")
		if disk && age > unused || left && age > time.Hour {
			errs = append(errs, sys.RemoveTree(filepath.Join(m.dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// hostUnits are the agent's: one tells of docker0 from early on, the other takes
// requests once the engine is up.
const hostUnits = `[Unit]
Description=tare's agent: docker0's moments
DefaultDependencies=no
Before=docker.service sysinit.target
[Service]
ExecStart=` + hostAgent + ` links
--
[Unit]
Description=tare's agent
After=docker.service
[Service]
ExecStart=` + hostAgent + ` service
`

// fill makes a disk of the distribution's files and tare's own.
func (m *made) fill(ctx context.Context, base, oci, file string) (err error) {
	tree, err := os.MkdirTemp(m.dir, "tree-")
	if err != nil {
		return target.Labf("container host: %w", err)
	}
	defer func() { err = errors.Join(err, sys.RemoveTree(tree)) }()
	if err := m.command(ctx, "copy.log", "cp", "-al", base+"/.", tree); err != nil {
		return err
	}
	if err := m.ours(tree, oci); err != nil {
		return target.Labf("container host: %w", err)
	}
	if err := m.command(ctx, "copy.log", "cp", "-a", m.lab.TestRootfs+"/.", filepath.Join(tree, hostRootfs)); err != nil {
		return err
	}
	if err := image.Ext4Of(ctx, file, tree, hostDisk); err != nil {
		return target.Labf("container host: %w", err)
	}
	return nil
}

// ours writes what is tare's into the tree: files of base are linked to it, so
// that none of them may be written to.
func (m *made) ours(tree, oci string) error {
	agent, err := os.ReadFile(m.lab.InitPath)
	if err != nil {
		return err
	}
	links, service, _ := strings.Cut(hostUnits, "--\n")
	for _, f := range []struct {
		path string
		mode os.FileMode
		data []byte
	}{
		{hostAgent, 0o755, agent},
		{filepath.Join(filepath.Dir(hostAgent), "config.json"), 0o644, proofBundle()},
		{"/etc/systemd/system/tare-links.service", 0o644, []byte(links)},
		{"/etc/systemd/system/tare-agent.service", 0o644, []byte(service)},
		{"/etc/machine-id", 0o444, []byte("7461726500000000000000000000cafe\n")}, // else each boot is a first boot
		{"/etc/hostname", 0o644, []byte("tare\n")},
	} {
		file := filepath.Join(tree, f.path)
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, f.data, f.mode)); err != nil {
			return err
		}
	}
	for unit, wanted := range map[string]string{"tare-links.service": "sysinit.target.wants", "tare-agent.service": "multi-user.target.wants"} {
		dir := filepath.Join(tree, "etc/systemd/system", wanted)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.Symlink("../"+unit, filepath.Join(dir, unit))); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(tree, hostRootfs), 0o755); err != nil {
		return err
	}
	return archive(oci, filepath.Join(tree, hostArchive))
}

// archive writes the one image of a layout as docker save does.
func archive(oci, file string) error {
	index, err := layout.ImageIndexFromPath(oci)
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	if len(manifest.Manifests) != 1 {
		return fmt.Errorf("%s holds %d images, want 1", oci, len(manifest.Manifests))
	}
	img, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(hostImage)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(file, tag, img)
}

// loadScript loads the image into Docker, sees a container act, and leaves
// nothing behind.
const loadScript = `set -e
docker load -q -i ` + hostArchive + `
rm ` + hostArchive + `
docker run --rm ` + hostImage + ` ` + target.Mark + ` -- /bin/busybox true`

// load boots the disk with the distribution's kernel and loads the image.
func (m *made) load(ctx context.Context, h *Host, disk string) error {
	said, err := m.once(ctx, h, arm{systemd: true}, vmm.Disk{Path: disk, Own: true}, loadScript)
	if err != nil {
		return err
	}
	if said.exit.Code != 0 || said.exit.Signal != 0 {
		return fmt.Errorf("docker load ended with code %d: %s", said.exit.Code, lastWords(said.text))
	}
	return nil
}

// outcome is how a script went in a container host.
type outcome struct {
	text []byte // what it printed
	exit target.Exit
	off  bool // the machine powered off in time
}

// mostOnce bounds a boot outside of any trial, against a script that hangs.
const mostOnce = 15 * time.Minute

// once boots an arm and runs a script in it, outside of any trial.
func (m *made) once(ctx context.Context, h *Host, a arm, disk vmm.Disk, script string) (out outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, mostOnce)
	defer cancel()
	path, err := h.Locate()
	if err != nil {
		return out, err
	}
	dir, err := os.MkdirTemp(h.lab.RunDir, target.Label+"-host-")
	if err != nil {
		return out, target.Labf("%w", err)
	}
	defer func() { err = errors.Join(err, sys.RemoveTree(dir)) }()
	said, err := os.Create(filepath.Join(dir, "said"))
	if err != nil {
		return out, target.Labf("%w", err)
	}
	defer said.Close()
	machine, err := h.machineOf(ctx, path, a)
	if err != nil {
		return out, err
	}
	machine.Disks = []vmm.Disk{disk}
	i, err := h.boot(ctx, path, machine, target.Spec{ID: filepath.Base(dir), Args: []string{"/bin/sh", "-c", script}, Env: hostEnv,
		Stdio: target.Stdio{Stdout: said, Stderr: said}}, dir)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	if err := i.Start(ctx, func(target.Phase) {}); err != nil {
		return out, err
	}
	if out.exit, err = i.Wait(ctx); err != nil {
		return out, err
	}
	select {
	case <-i.vm.Ended():
		out.off = true
	default:
	}
	out.text, err = os.ReadFile(said.Name())
	return out, err
}

// stock are the kernel and the initramfs that the distribution made.
func (m *made) stock(ctx context.Context) (vmm.Kernel, string, error) {
	base, err := m.base(ctx, func(string) {})
	if err != nil {
		return vmm.Kernel{}, "", err
	}
	kernels, err := filepath.Glob(filepath.Join(base, "boot/vmlinuz-*"))
	if err != nil || len(kernels) == 0 {
		return vmm.Kernel{}, "", target.Labf("container host: no kernel in %s/boot: %w", base, err)
	}
	slices.Sort(kernels)
	last := kernels[len(kernels)-1]
	k, err := vmm.Inspect(last)
	if err != nil {
		return k, "", target.Labf("container host: %w", err)
	}
	return k, strings.Replace(last, "vmlinuz-", "initrd.img-", 1), nil
}

// kernelOf is an arm's kernel.
func (m *made) kernelOf(ctx context.Context, a arm) (vmm.Kernel, error) {
	if a.stock() {
		k, _, err := m.stock(ctx)
		return k, err
	}
	return m.trimmed(ctx, a, func(string) {})
}

// initrdOf is an arm's initramfs, "" for none.
func (m *made) initrdOf(ctx context.Context, a arm) (string, error) {
	if a.stock() {
		_, initrd, err := m.stock(ctx)
		return initrd, err
	}
	if !a.initrd {
		return "", nil
	}
	return m.home.initramfs(ctx, guestKernel{}, "", "")
}

// wantsOf are all symbols of a trimmed kernel.
func wantsOf(a arm) ([]kconfig.Want, error) {
	wants, err := kconfig.Collect(hostNeeds, needs.Load)
	if err != nil {
		return nil, err
	}
	for _, s := range a.symbols {
		name, value, _ := strings.Cut(s, "=")
		wants = slices.DeleteFunc(wants, func(w kconfig.Want) bool { return w.Symbol == name })
		wants = append(wants, kconfig.Want{Symbol: name, Value: value, Why: a.why, Source: "the arm vm/" + a.name, Need: a.name})
	}
	return wants, nil
}

// kernelDir is where a trimmed kernel is kept: by its source and all that it was
// asked for.
func (m *made) kernelDir(a arm) (string, []kconfig.Want, error) {
	wants, err := wantsOf(a)
	if err != nil {
		return "", nil, err
	}
	var asked strings.Builder // without the reasons: another arm's are the same kernel's
	if a.way == trim.TopDown {
		fmt.Fprintln(&asked, a.way, m.baseDir())
	}
	for _, w := range wants {
		fmt.Fprintln(&asked, w.Symbol, w.Value, w.Or, w.Optional, w.Arch, w.Since, w.Before)
	}
	return filepath.Join(m.dir, fmt.Sprintf("kernel-%s-%s", a.packed, digest(hostSource, asked.String())[:16])), wants, nil
}

// kernelFile is the image in it.
func kernelFile(dir string, packed trim.Compression) string {
	if packed == "none" {
		return filepath.Join(dir, "vmlinux")
	}
	return filepath.Join(dir, "bzImage")
}

// trimmed is the kernel of what container hosts need, built where it is not kept.
func (m *made) trimmed(ctx context.Context, a arm, tell func(string)) (vmm.Kernel, error) {
	dir, wants, err := m.kernelDir(a)
	if err != nil {
		return vmm.Kernel{}, target.Labf("trimmed kernel: %w", err)
	}
	file := kernelFile(dir, a.packed)
	if _, err := os.Stat(filepath.Join(dir, "kernel.json")); err != nil {
		if err := m.build(ctx, a, dir, wants, tell); err != nil {
			return vmm.Kernel{}, fmt.Errorf("trimmed kernel: %w", err)
		}
	}
	k, err := vmm.Inspect(file)
	if err != nil {
		return k, target.Labf("trimmed kernel: %w", err)
	}
	return k, nil
}

func (m *made) build(ctx context.Context, a arm, dir string, wants []kconfig.Want, tell func(string)) error {
	kept := filepath.Join(m.lab.CacheDir, "kernel")
	source, err := trim.Source(ctx, hostSource, kept, tell)
	if err != nil {
		return err
	}
	o := trim.Options{Source: source, Wants: wants, Way: trim.BottomUp, Compression: a.packed, Jobs: runtime.NumCPU(),
		Build: filepath.Join(kept, "build", filepath.Base(source)), Output: dir}
	if a.way == trim.TopDown {
		o.Way, o.Build = a.way, o.Build+"-top-down"
		if o.Base, err = m.stockConfig(ctx); err != nil {
			return err
		}
	}
	began := time.Now() // for people
	tell("building a kernel of what container hosts need (about 6 minutes on two CPUs; a minute or less for another choice)")
	shown := began
	_, err = trim.Build(ctx, o, func(p trim.Progress) {
		if time.Since(shown) > 15*time.Second {
			shown = time.Now()
			tell(fmt.Sprintf("building the kernel: %d files in %s, %s", p.Objects, time.Since(began).Round(time.Second), p.What))
		}
	})
	return err
}

// stockConfig is the configuration of the distribution's kernel.
func (m *made) stockConfig(ctx context.Context) (*kconfig.Config, error) {
	k, _, err := m.stock(ctx)
	if err != nil {
		return nil, err
	}
	return readConfig(filepath.Join(m.baseDir(), "boot", "config-"+k.Version))
}

func readConfig(file string) (*kconfig.Config, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, target.Labf("container host: %w", err)
	}
	defer f.Close()
	c, err := kconfig.Parse(f)
	if err != nil {
		return nil, target.Labf("container host: %s: %w", file, err)
	}
	return c, nil
}

// there reports whether all parts of an arm are made.
func (m *made) there(oci string, a arm) bool {
	if m.lab.CacheDir == "" {
		return false
	}
	key, err := m.diskKey(oci)
	if err != nil {
		return false
	}
	files := []string{m.baseDir(), m.diskFile(key)}
	if !a.stock() {
		dir, _, err := m.kernelDir(a)
		if err != nil {
			return false
		}
		files = append(files, filepath.Join(dir, "kernel.json"))
	}
	return !slices.ContainsFunc(files, func(file string) bool { _, err := os.Stat(file); return err != nil })
}

// notes are the facts of an arm's parts: versions, and sizes in bytes.
func (m *made) notes(ctx context.Context, a arm) (map[string]string, error) {
	notes := map[string]string{"initrd-bytes": "0"}
	k, err := m.kernelOf(ctx, a)
	if err != nil {
		return nil, err
	}
	initrd, err := m.initrdOf(ctx, a)
	if err != nil {
		return nil, err
	}
	notes["kernel"], notes["kernel-digest"] = fmt.Sprintf("%s (%s)", k.Version, k.Format), k.Digest
	for note, file := range map[string]string{"kernel-bytes": k.Path, "initrd-bytes": initrd} {
		if file == "" {
			continue
		}
		info, err := os.Stat(file)
		if err != nil {
			return nil, target.Labf("container host: %w", err)
		}
		notes[note] = fmt.Sprint(info.Size())
	}
	config := filepath.Join(m.baseDir(), "boot", "config-"+k.Version)
	if !a.stock() {
		config = filepath.Join(filepath.Dir(k.Path), "config")
	}
	c, err := readConfig(config)
	if err != nil {
		return nil, err
	}
	notes["symbols"] = countSymbols(c)
	if a.lever {
		return notes, nil
	}
	return notes, m.proven(a, k, notes)
}

// countSymbols says how many symbols of a configuration are on: built in, and
// as modules.
func countSymbols(c *kconfig.Config) string {
	in, modules := 0, 0
	for _, v := range c.Values {
		switch v {
		case "y":
			in++
		case "m":
			modules++
		}
	}
	return fmt.Sprintf("%d built in, %d modules", in, modules)
}
