package containerhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/vm"
	"github.com/tarelab/tare/internal/kerneltools/kbuild"
	"github.com/tarelab/tare/internal/kerneltools/kconfig"
	"github.com/tarelab/tare/internal/kerneltools/trim"
	"github.com/tarelab/tare/internal/vmm"
	"github.com/tarelab/tare/needs"
)

// hostSource and hostNeeds are the trimmed kernel's: one for both machine types.
// The distribution's iptables speaks to nf_tables.
const hostSource = "linux-source-6.1"

var hostNeeds = []string{"docker", "nftables", "ext4", "systemd", "virtio-pci", "virtio-mmio"}

// stock are the kernel and the initramfs that the distribution made.
func (m *hostParts) stock(ctx context.Context) (vmm.Kernel, string, error) {
	base, err := m.base(ctx, func(string) {})
	if err != nil {
		return vmm.Kernel{}, "", err
	}
	kernels, err := filepath.Glob(filepath.Join(base, "boot/vmlinuz-*"))
	if err != nil || len(kernels) == 0 {
		return vmm.Kernel{}, "", driver.Labf("container host: no kernel in %s/boot: %w", base, err)
	}
	slices.Sort(kernels)
	last := kernels[len(kernels)-1]
	k, err := vmm.Inspect(last)
	if err != nil {
		return k, "", driver.Labf("container host: %w", err)
	}
	return k, strings.Replace(last, "vmlinuz-", "initrd.img-", 1), nil
}

// kernelOf is an arm's kernel.
func (m *hostParts) kernelOf(ctx context.Context, a arm) (vmm.Kernel, error) {
	switch {
	case a.image != "":
		k, err := vmm.Inspect(a.image)
		if err != nil {
			return k, driver.Labf("kernel to prove: %w", err)
		}
		return k, nil
	case a.stock():
		k, _, err := m.stock(ctx)
		return k, err
	}
	return m.trimmed(ctx, a, func(string) {})
}

// initrdOf is an arm's initramfs, "" for none.
func (m *hostParts) initrdOf(ctx context.Context, a arm) (string, error) {
	if a.stock() {
		_, initrd, err := m.stock(ctx)
		return initrd, err
	}
	switch a.initrd {
	case agentInitrd:
		return m.guests.AgentInitramfs(ctx)
	case busyboxInitrd:
		return m.busybox(ctx)
	}
	return "", nil
}

// busybox is trim's initramfs with the distribution's busybox.
func (m *hostParts) busybox(ctx context.Context) (string, error) {
	program, err := os.ReadFile(filepath.Join(m.baseDir(), "bin/busybox"))
	if err != nil {
		return "", driver.Labf("initramfs: %w", err)
	}
	return m.guests.Kept(vm.Digest(trim.InitScript, string(program))+".cpio", func(file string) error {
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			return driver.Labf("initramfs: %w", err)
		}
		return errors.Join(trim.Initramfs(ctx, f, program), f.Close())
	})
}

// wantsOf are all symbols of a trimmed kernel.
func wantsOf(a arm) ([]kconfig.Want, error) {
	wants, err := kconfig.Collect(slices.Concat(hostNeeds, a.needs), needs.Load)
	if err != nil {
		return nil, err
	}
	wants = slices.DeleteFunc(wants, func(w kconfig.Want) bool { return slices.Contains(a.lacks, w.Need) })
	for _, s := range a.symbols {
		name, value, _ := strings.Cut(s, "=")
		wants = slices.DeleteFunc(wants, func(w kconfig.Want) bool { return w.Symbol == name })
		wants = append(wants, kconfig.Want{Symbol: name, Value: value, Why: a.why, Source: "the arm vm/" + a.name, Need: a.name})
	}
	return wants, nil
}

// kernelDir is where a trimmed kernel is kept: by its source and all that it was
// asked for.
func (m *hostParts) kernelDir(a arm) (string, []kconfig.Want, error) {
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
	return filepath.Join(m.dir, fmt.Sprintf("kernel-%s-%s", a.packed, vm.Digest(hostSource, asked.String())[:16])), wants, nil
}

// kernelFile is the image in it.
func kernelFile(dir string, packed trim.Compression) string {
	if packed == "none" {
		return filepath.Join(dir, "vmlinux")
	}
	return filepath.Join(dir, "bzImage")
}

// trimmed is the kernel of what container hosts need, built where it is not kept.
func (m *hostParts) trimmed(ctx context.Context, a arm, tell func(string)) (vmm.Kernel, error) {
	dir, wants, err := m.kernelDir(a)
	if err != nil {
		return vmm.Kernel{}, driver.Labf("trimmed kernel: %w", err)
	}
	file := kernelFile(dir, a.packed)
	if _, err := os.Stat(filepath.Join(dir, "kernel.json")); err != nil {
		if err := m.build(ctx, a, dir, wants, tell); err != nil {
			return vmm.Kernel{}, fmt.Errorf("trimmed kernel: %w", err)
		}
	}
	k, err := vmm.Inspect(file)
	if err != nil {
		return k, driver.Labf("trimmed kernel: %w", err)
	}
	return k, nil
}

func (m *hostParts) build(ctx context.Context, a arm, dir string, wants []kconfig.Want, tell func(string)) error {
	kept := trim.StoreIn(m.lab.CacheDir)
	source, err := kept.Source(ctx, hostSource, tell)
	if err != nil {
		return withoutPackages(err)
	}
	o := trim.Options{Source: source, Arch: trim.X86, Wants: wants, Way: trim.BottomUp, Compression: a.packed, Jobs: runtime.NumCPU(),
		Build: kept.Objects(source, a.objects...), Output: dir}
	if a.way == trim.TopDown {
		o.Way, o.Build = a.way, kept.Objects(source, string(a.way))
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

// sourceTree is the last source of hostSource that was fetched; nil for none.
func (m *hostParts) sourceTree() *kbuild.Tree {
	dir := trim.StoreIn(m.lab.CacheDir).Last(hostSource)
	if dir == "" {
		return nil
	}
	tree, err := kbuild.Open(dir, "x86")
	if err != nil {
		return nil // it lacks what a build would ask for
	}
	return tree
}

// withoutPackages are errors of a source that is a package, whose name is right: it
// is out of reach.
func withoutPackages(err error) error {
	var fetch *trim.FetchError
	var source *trim.SourceError
	if errors.As(err, &fetch) || errors.As(err, &source) {
		return notToBeHad(err.Error())
	}
	return err
}

// notToBeHad says that Debian's packages are out of reach.
func notToBeHad(why string) error {
	return &driver.CannotError{Target: "vm", Lacks: "Debian's packages cannot be had: " + why, Remedy: "apt-get update says what stands in the way"}
}

// stockConfig is the configuration of the distribution's kernel.
func (m *hostParts) stockConfig(ctx context.Context) (*kconfig.Config, error) {
	k, _, err := m.stock(ctx)
	if err != nil {
		return nil, err
	}
	return readConfig(filepath.Join(m.baseDir(), "boot", "config-"+k.Version))
}

func readConfig(file string) (*kconfig.Config, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, driver.Labf("container host: %w", err)
	}
	defer f.Close()
	c, err := kconfig.Parse(f)
	if err != nil {
		return nil, driver.Labf("container host: %s: %w", file, err)
	}
	return c, nil
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
