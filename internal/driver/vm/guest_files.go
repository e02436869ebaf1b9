package vm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/vmm"
)

// home keeps what guests are made of, between instances and between processes:
// kernels, initial file systems by digest, and what was proven of KVM.
type home struct {
	lab    driver.Lab
	arch   string // of the guests
	dir    string
	device string // /dev/kvm

	kernels sync.Mutex           // one fetch at a time
	stock   map[string]vmm.Stock // by release; "" is the distribution's own
	builds  sync.Mutex           // guards prints, and one build at a time
	prints  map[string]string
	packs   sync.Mutex           // guards packed, and one packing at a time
	packed  map[string]moduleSet // by directory and names
	proofs  chan struct{}        // holds the turn of the proof that is being made: one at a time
	known   sync.Mutex           // guards proven
	proven  map[string]proof     // by proofName: while a process lives, one acceleration

	systems     sync.Mutex // guards systemKnown, and one disk is made at a time
	systemKnown System     // of lab.Guest.Rootfs, once it was looked up
}

func newHome(lab driver.Lab) *home {
	return &home{lab: lab, arch: runtime.GOARCH, dir: GuestsDir(lab), device: "/dev/kvm", stock: map[string]vmm.Stock{}, prints: map[string]string{}, packed: map[string]moduleSet{}, proofs: make(chan struct{}, 1), proven: map[string]proof{}}
}

// guestKernel is a kernel, and where its modules are.
type guestKernel struct {
	kernel  vmm.Kernel
	of      vmm.Kernel // what kernel was made of, in its own format; its configuration lies beside it
	modules string     // directory; "" where the kernel has all that it needs built in
	wanted  []string
	source  string // the package that it came from
}

// unpackRemedy is for a machine without the program that unpacks kernels and modules.
const unpackRemedy = "tare setup installs xz"

// read reads wanted modules with all that they need, and names those that the kernel has
// not. A machine may lack the program that unpacks them.
func (g guestKernel) read(ctx context.Context, wanted []string) (modules []vmm.Module, missing []string, err error) {
	modules, missing, err = vmm.Modules(ctx, g.modules, wanted)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, nil, &driver.CannotError{Target: "vm", Lacks: err.Error(), Remedy: unpackRemedy}
	case err != nil:
		return nil, nil, driver.Labf("%w", err)
	}
	return modules, missing, nil
}

// kernelFor gives the target's kernel, the user's for all guests, or the distribution's,
// in a format for d.
func (h *home) kernelFor(ctx context.Context, d *Driver) (guestKernel, error) {
	g := guestKernel{wanted: d.vmm.Modules}
	if h.lab.CacheDir == "" {
		return g, d.Cannot("set HOME or XDG_CACHE_HOME", "there is no directory to keep kernels and guests' files in")
	}
	kernels := filepath.Join(h.dir, "kernels")
	if err := sweep(kernels, math.MaxInt64); err != nil {
		return g, driver.Labf("keep guests' kernels: %w", err)
	}
	var original vmm.Kernel
	if file := cmp.Or(d.kernel, h.lab.Guest.Kernel); file != "" && !driver.IsRelease(file) {
		k, err := vmm.Inspect(file)
		if err != nil {
			return g, d.Cannot("give another kernel", "%v", err)
		}
		original, g.modules = k, vmm.ModulesOf(filepath.Dir(filepath.Dir(file)), k.Version)
		if g.modules == "" {
			g.modules = vmm.ModulesOf("/", k.Version)
		}
	} else {
		s, err := h.stockKernel(ctx, file, kernels)
		if err != nil {
			return g, err
		}
		original, g.modules, g.source = s.Kernel, s.Modules, s.Package
	}
	if d.kernel == "" && h.lab.Guest.Kernel == "" {
		if lacks := original.Lacks(d.vmm.Symbols); len(lacks) > 0 {
			if made, ok := h.made(d.vmm.Name); ok {
				original, g.modules, g.source = made, "", fmt.Sprintf("made by tare trim build, since %s lacks %s", cmp.Or(g.source, "the distribution's"), strings.Join(lacks, " and "))
			}
		}
	}
	k, err := d.vmm.Kernel(ctx, original, kernels)
	if errors.Is(err, exec.ErrNotFound) {
		return g, d.Cannot(unpackRemedy, "%v", err)
	}
	if err != nil {
		return g, d.Cannot("give another kernel", "%v", err)
	}
	g.kernel, g.of = k, original
	return g, nil
}

// madeDir is where a kernel lies that was made for a machine type's guests.
func (h *home) madeDir(machine string) string {
	return filepath.Join(h.dir, "made", strings.ReplaceAll(machine, "/", "-"))
}

// made is the kernel that was made for guests of a machine type, if there is one.
func (h *home) made(machine string) (vmm.Kernel, bool) {
	for _, name := range []string{"bzImage", "vmlinux"} {
		if k, err := vmm.Inspect(filepath.Join(h.madeDir(machine), name)); err == nil {
			return k, true
		}
	}
	return vmm.Kernel{}, false
}

// stockKernel is a distribution's kernel of a release, or of this machine's own where
// the release is "".
func (h *home) stockKernel(ctx context.Context, release, dir string) (vmm.Stock, error) {
	h.kernels.Lock()
	defer h.kernels.Unlock()
	if s, ok := h.stock[release]; ok {
		return s, nil
	}
	get := vmm.StockKernel
	if release != "" {
		get = func(ctx context.Context, dir string) (vmm.Stock, error) {
			return vmm.ReleaseKernel(ctx, h.arch, dir, filepath.Join(h.lab.CacheDir, "debian"), release)
		}
	}
	s, err := get(ctx, dir)
	var none *vmm.NoKernelError
	if errors.As(err, &none) {
		return s, &driver.CannotError{Target: "vm", Lacks: none.Error(), Remedy: "give the path of one"}
	}
	if err == nil {
		h.stock[release] = s
	}
	return s, err
}

// root gives a machine its root: an initramfs with all of rootfs, or, where the
// user wants it or the guest is too small, a disk and a small initramfs that
// mounts it.
func (h *home) root(ctx context.Context, g guestKernel, rootfs string, m *vmm.Machine) error {
	h.builds.Lock()
	defer h.builds.Unlock()
	name, ok := h.prints[rootfs]
	if !ok {
		var err error
		if name, err = image.Fingerprint(ctx, rootfs); err != nil {
			return driver.Labf("root file system: %w", err)
		}
		h.prints[rootfs] = name
	}
	m.Append = parameters(m.Append)
	if !h.lab.Guest.Disk {
		var err error
		if m.Initrd, err = h.initramfs(ctx, g, rootfs, name); err != nil {
			return err
		}
		fits, err := unpacks(m.Initrd, m.Memory)
		if fits || err != nil {
			return err
		}
	}
	return h.disk(ctx, g, rootfs, name, m)
}

// kernelRoom is what a stock kernel takes of a small guest's memory before its
// first process.
const kernelRoom = 100 << 20

// unpacks tells whether a guest has room for an initramfs, which is there twice
// while it is unpacked.
func unpacks(initramfs string, memory int64) (bool, error) {
	info, err := os.Stat(initramfs)
	if err != nil {
		return false, driver.Labf("initramfs: %w", err)
	}
	return 2*info.Size()+kernelRoom <= memory, nil
}

// disk gives a machine its root as a disk, and an initramfs that mounts it.
func (h *home) disk(ctx context.Context, g guestKernel, rootfs, name string, m *vmm.Machine) error {
	disk, err := h.kept(name+".ext4", func(file string) error { return image.Ext4(ctx, file, rootfs) })
	if err != nil {
		return driver.Labf("%w", err)
	}
	m.Append = append(m.Append, fmt.Sprintf("tare_root=/dev/vd%c", 'a'+len(m.Disks)))
	m.Disks = append(m.Disks, vmm.Disk{Path: disk, ReadOnly: true})
	g.wanted = append(slices.Clone(g.wanted), "overlay", "ext4")
	m.Initrd, err = h.initramfs(ctx, g, "", "")
	return err
}

// parameters are every guest's: messages from "notice" on, because a serial
// port takes its time for each letter, the agent as the first process, and no
// second life after a panic.
func parameters(more []string) []string {
	return append([]string{"loglevel=6", "panic=-1", "rdinit=/.tare/init"}, more...)
}

// initramfs is the agent on top of rootfs, and behind them, in an archive of its own,
// the modules that the agent loads.
func (h *home) initramfs(ctx context.Context, g guestKernel, rootfs, name string) (string, error) {
	agent, err := os.ReadFile(h.lab.InitPath)
	if err != nil {
		return "", driver.Labf("the guest's agent: %w", err)
	}
	modules, err := h.moduleSet(ctx, g)
	if err != nil {
		return "", err
	}
	return h.kept(Digest(name, string(agent), modules.digest)+".cpio", func(file string) error {
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			return driver.Labf("initramfs: %w", err)
		}
		err = image.Initramfs(ctx, f, rootfs, []image.File{{Path: "/.tare/init", Mode: 0o755, Data: agent}})
		if err == nil {
			_, err = f.Write(modules.archive)
		}
		return errors.Join(err, f.Close())
	})
}

// moduleSet is an archive of modules with their list.
type moduleSet struct {
	archive []byte // an initramfs of its own, which a kernel unpacks after another; nil for none
	digest  string // "sha256:" and 64 hexadecimal digits, of the archive; "" for none
}

// moduleSet packs the modules that a kernel needs, once in a process: they may come or
// change between two.
func (h *home) moduleSet(ctx context.Context, g guestKernel) (set moduleSet, err error) {
	if g.modules == "" {
		return set, nil
	}
	h.packs.Lock()
	defer h.packs.Unlock()
	as := g.modules + " " + strings.Join(g.wanted, " ")
	if set, ok := h.packed[as]; ok {
		return set, nil
	}
	modules, _, err := g.read(ctx, g.wanted)
	if err != nil {
		return set, err
	}
	if len(modules) > 0 {
		if set, err = pack(ctx, modules); err != nil {
			return set, err
		}
	}
	h.packed[as] = set
	return set, nil
}

// pack makes a set of modules that are in the order in which they must be loaded.
func pack(ctx context.Context, modules []vmm.Module) (moduleSet, error) {
	var files []image.File
	var list strings.Builder
	for _, m := range modules {
		path := "/.tare/module/" + m.Name + ".ko"
		fmt.Fprintln(&list, path)
		files = append(files, image.File{Path: path, Mode: 0o644, Data: m.Data})
	}
	files = append(files, image.File{Path: "/.tare/modules", Mode: 0o644, Data: []byte(list.String())})
	var archive bytes.Buffer
	if err := image.Initramfs(ctx, &archive, "", files); err != nil {
		return moduleSet{}, driver.Labf("kernel modules: %w", err)
	}
	return moduleSet{archive.Bytes(), "sha256:" + Digest(archive.String())}, nil
}

// Unused is how long a kept file stays without use.
const Unused = 14 * 24 * time.Hour

// kept gives the file of that name, made by build where it is not there. It is
// there whole or not at all.
func (h *home) kept(as string, build func(file string) error) (string, error) {
	dir := filepath.Join(h.dir, "roots")
	file := filepath.Join(dir, strings.ReplaceAll(as, ":", "-"))
	now := time.Now() // of last use; no measurement
	if os.Chtimes(file, now, now) == nil {
		return file, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", driver.Labf("keep guests' files: %w", err)
	}
	if err := sweep(dir, Unused); err != nil {
		return "", driver.Labf("keep guests' files: %w", err)
	}
	tmp, err := os.CreateTemp(dir, "tmp-")
	if err != nil {
		return "", driver.Labf("keep guests' files: %w", err)
	}
	tmp.Close()
	defer os.Remove(tmp.Name())
	if err := build(tmp.Name()); err != nil {
		return "", err
	}
	if err := errors.Join(os.Chmod(tmp.Name(), 0o644), os.Rename(tmp.Name(), file)); err != nil {
		return "", driver.Labf("keep guests' files: %w", err)
	}
	return file, nil
}

// sweep removes what nobody has used for longer than most, and what killed processes left.
func sweep(dir string, most time.Duration) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // another process has removed it
		}
		age := time.Since(info.ModTime())
		if age > most || age > time.Hour && strings.HasPrefix(e.Name(), "tmp-") {
			if err := sys.RemoveTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
