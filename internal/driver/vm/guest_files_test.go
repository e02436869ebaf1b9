package vm

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/drivertest"
	"github.com/tarelab/tare/internal/vmm"
)

// moduleFile is a kernel module that needs no other, and says more.
func moduleFile(more string) []byte {
	const names, start = "\x00.modinfo\x00.shstrtab\x00", 4 * 64
	info := "depends=\x00" + more + "\x00"
	var out bytes.Buffer
	for _, part := range []any{
		elf.Header64{Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: 1,
			Shoff: 64, Ehsize: 64, Shentsize: 64, Shnum: 3, Shstrndx: 2},
		elf.Section64{},
		elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: start, Size: uint64(len(info))},
		elf.Section64{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: start + uint64(len(info)), Size: uint64(len(names))},
		[]byte(info + names),
	} {
		_ = binary.Write(&out, binary.LittleEndian, part) // a buffer takes all
	}
	return out.Bytes()
}

// TestInitramfsFollowsModules: an initramfs is kept for the modules that are in it, so
// that those which are installed later, or change, are not missed.
func TestInitramfsFollowsModules(t *testing.T) {
	lab := drivertest.New(t)
	lab.CacheDir = t.TempDir()
	dir := t.TempDir()
	file := filepath.Join(dir, "kernel", "virtio_blk.ko")
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "modules.builtin"), nil, 0o600))
	initramfs := func(modules string) (path, holds string) {
		h := newHome(lab) // another process
		path, err := h.initramfs(t.Context(), guestKernel{kernel: vmm.Kernel{Digest: "sha256:1"}, modules: modules, wanted: []string{"virtio_blk"}}, "", "")
		must(t, err)
		data, err := os.ReadFile(path)
		must(t, err)
		if len(data)%4 != 0 {
			t.Errorf("an archive of %d bytes: another one behind it would not be found", len(data))
		}
		return path, string(data)
	}
	none, without := initramfs(dir)
	if built, _ := initramfs(""); built != none {
		t.Errorf("%s and %s hold the same", built, none)
	}
	seen := map[string]bool{none: true}
	for _, version := range []string{"version=1", "version=2"} {
		must(t, os.WriteFile(file, moduleFile(version), 0o600))
		path, with := initramfs(dir)
		if seen[path] || !strings.HasPrefix(with, without) || !strings.Contains(with, "/.tare/module/virtio_blk.ko\n") || !strings.Contains(with, version) {
			t.Errorf("with the module of %s: %s, of %d bytes", version, path, len(with))
		}
		seen[path] = true
		if again, _ := initramfs(dir); again != path {
			t.Errorf("the same modules give %s and %s", path, again)
		}
	}
	set, err := newHome(lab).moduleSet(t.Context(), guestKernel{modules: dir, wanted: []string{"virtio_blk"}})
	if err != nil || !strings.HasPrefix(set.digest, "sha256:") || len(set.digest) != len("sha256:")+64 {
		t.Errorf("the digest is %q, %v", set.digest, err)
	}
	must(t, os.WriteFile(file, []byte("no module"), 0o600))
	if _, err := newHome(lab).moduleSet(t.Context(), guestKernel{modules: dir, wanted: []string{"virtio_blk"}}); err == nil || !driver.IsLab(err) {
		t.Errorf("a module that is none: %v", err)
	}
	must(t, os.Rename(file, file+".xz"))
	t.Setenv("PATH", t.TempDir())
	var cannot *driver.CannotError
	if _, err := newHome(lab).moduleSet(t.Context(), guestKernel{modules: dir, wanted: []string{"virtio_blk"}}); !errors.As(err, &cannot) || !strings.Contains(err.Error(), `"xz": executable file not found`) {
		t.Errorf("a packed module, and no program that unpacks it: %v", err)
	}
}

// TestKilledDownloads: what killed processes left of kernels goes, and nothing else does,
// however old.
func TestKilledDownloads(t *testing.T) {
	lab := driver.Lab{CacheDir: t.TempDir(), Guest: driver.Guest{Kernel: "/no/such/kernel"}}
	h := newHome(lab)
	dir := filepath.Join(h.dir, "kernels")
	old := time.Now().Add(-2 * time.Hour)
	for name, at := range map[string]time.Time{"tmp-old": old, "tmp-new": time.Now(), "linux-image-cloud-amd64": old.AddDate(-1, 0, 0)} {
		must(t, os.MkdirAll(filepath.Join(dir, name, "whole/boot"), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name, "x.deb"), nil, 0o600))
		must(t, os.Chtimes(filepath.Join(dir, name), at, at))
	}
	for _, name := range []string{"tmp-unpacking", "1.unpacked"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		must(t, os.Chtimes(filepath.Join(dir, name), old, old))
	}
	if _, err := h.kernelFor(t.Context(), &Driver{lab: lab, home: h}); err == nil {
		t.Error("there is a kernel")
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := []string{"1.unpacked", "linux-image-cloud-amd64", "tmp-new"}; !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
}

// Where the distribution's kernel lacks what a machine type's guests find their devices by,
// one that was made for it is taken; the remedy says how, until there is one.
func TestMadeKernel(t *testing.T) {
	v, ok := vmm.ByName("stratovirt/microvm")
	if !ok || v.Formats[0] != vmm.BzImage {
		t.Skip("the kernels of this test are x86's")
	}
	lab := drivertest.New(t)
	lab.CacheDir = t.TempDir()
	kernel := make([]byte, 4096)
	copy(kernel[0x202:], "HdrS")
	boot := t.TempDir()
	stock, config := filepath.Join(boot, "vmlinuz-6.1"), filepath.Join(boot, "config-6.1")
	made := filepath.Join(GuestsDir(lab), "made", "stratovirt-microvm", "bzImage")
	must(t, errors.Join(os.WriteFile(stock, kernel, 0o644), os.WriteFile(config, []byte("\n# CONFIG_VIRTIO_MMIO_CMDLINE_DEVICES is not set\nCONFIG_VIRTIO_CONSOLE=m\n"), 0o644)))
	taken := func() string {
		d := New(lab, v)
		k, err := vmm.Inspect(stock)
		must(t, err)
		d.home.stock[""] = vmm.Stock{Kernel: k, Package: "linux-image"}
		g, err := d.home.kernelFor(t.Context(), d)
		must(t, err)
		if (g.kernel.Path == made) != strings.Contains(g.source, "linux-image lacks VIRTIO_MMIO_CMDLINE_DEVICES") {
			t.Errorf("kernel %s is of %q", g.kernel.Path, g.source)
		}
		return g.kernel.Path
	}
	if got := taken(); got != stock {
		t.Errorf("none was made, and %s is taken", got)
	}
	d := New(lab, v)
	if text := d.home.remedy(d); !strings.Contains(text, "tare trim build --needs tare-guest,systemd --vm stratovirt/microvm -o "+filepath.Dir(made)) {
		t.Errorf("the remedy is %q", text)
	}
	must(t, errors.Join(os.MkdirAll(filepath.Dir(made), 0o755), os.WriteFile(made, kernel, 0o644)))
	if got := taken(); got != made {
		t.Errorf("%s is taken, want the one that was made", got)
	}
	if text := d.home.remedy(d); strings.Contains(text, "trim build") {
		t.Errorf("the remedy makes a kernel that is there: %q", text)
	}
	must(t, os.WriteFile(config, []byte("\nCONFIG_VIRTIO_MMIO_CMDLINE_DEVICES=y\nCONFIG_VIRTIO_CONSOLE=m\n"), 0o644))
	if got := taken(); got != stock {
		t.Errorf("the distribution's lacks nothing, and %s is taken", got)
	}
	must(t, os.Remove(config))
	if got := taken(); got != stock {
		t.Errorf("nothing is known of the distribution's, and %s is taken", got)
	}
}
