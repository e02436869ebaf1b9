package trim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/kerneltools/kconfig"
	"github.com/tarelab/tare/internal/vmm"
	"github.com/tarelab/tare/needs"
)

// source is Debian's kernel source, fetched once a machine.
func source(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("fetches a kernel's source: not in the quick tests")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := StoreIn(filepath.Join(cache, "tare")).Source(t.Context(), "linux-source-6.1", func(s string) { t.Log(s) })
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func wants(t *testing.T, ids ...string) []kconfig.Want {
	t.Helper()
	w, err := kconfig.Collect(ids, needs.Load)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestConfigure makes real configurations, both ways, and checks that all that
// is wanted is in them.
func TestConfigure(t *testing.T) {
	tree := source(t)
	base, err := os.Open("../kconfig/testdata/debian-6.1-cloud.config.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	debian, err := kconfig.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	build := t.TempDir()
	for _, way := range []Way{BottomUp, TopDown} {
		o := Options{Arch: X86, Source: tree, Build: build, Way: way, Compression: "lz4", Jobs: 2,
			Wants: wants(t, "docker", "podman", "ext4", "systemd", "virtio-pci", "virtio-mmio", "virtio-scsi", "sata", "nvme", "lvm", "vfat", "iso9660", "initrd")}
		if way == TopDown {
			o.Base = debian
		}
		c, err := configure(t.Context(), &o)
		if err != nil {
			t.Fatalf("%s: %v", way, err)
		}
		for _, f := range c.Config.Check(o.Wants) {
			if f.Fails() {
				t.Errorf("%s: %s is %s", way, f.Symbol, f.State)
			}
		}
		if v := c.Config.Values; v["MODULES"] == "y" || v["KERNEL_LZ4"] != "y" || v["USB_SUPPORT"] == "y" || v["SECURITY_APPARMOR"] == "y" || v["DEBUG_INFO"] == "y" {
			t.Errorf("%s: modules %q, lz4 %q, USB %q, AppArmor %q, debugging information %q", way, v["MODULES"], v["KERNEL_LZ4"], v["USB_SUPPORT"], v["SECURITY_APPARMOR"], v["DEBUG_INFO"])
		}
		if v := c.Config.Values; way == BottomUp && (v["UNWINDER_GUESS"] != "y" || v["VT"] == "y" || v["PCI_QUIRKS"] == "y" || v["BASE_FULL"] != "y") {
			t.Errorf("what every kernel has where it is not left out: unwinder %q, VT %q, PCI quirks %q; full size %q", v["UNWINDER_GUESS"], v["VT"], v["PCI_QUIRKS"], v["BASE_FULL"])
		}
		for _, l := range c.GivenUp {
			if !l.Costly && len(l.Unmet) == 0 && l.State != kconfig.Wrong {
				t.Errorf("%s: %s was given up and nothing says why: %+v", way, l.Symbol, l)
			}
		}
	}
}

// A wanted symbol that Kconfig drops is an error that names what it depends on and
// is off, and no alternative that is not needed; so is one that the source does not
// have, where no version excuses it.
func TestUnmetDependency(t *testing.T) {
	o := Options{Arch: X86, Source: source(t), Build: t.TempDir(), Way: BottomUp, Compression: "lz4", Jobs: 1, Wants: []kconfig.Want{
		{Symbol: "NFT_MASQ", Why: "w", Need: "n"}, {Symbol: "SYSVIPC", Why: "w", Need: "n"}, {Symbol: "HYPERVISOR_GUEST", Why: "w", Need: "n"},
		{Symbol: "X86_X2APIC", Why: "w", Need: "n"}, {Symbol: "NF_TABELS", Why: "w", Need: "n"},
		{Symbol: "NO_SUCH_OPTION", Why: "w", Need: "n", Optional: true}, {Symbol: "NO_LONGER", Why: "w", Need: "n", Before: "5.0"},
		{Symbol: "SYSVIPC", Value: "n", Why: "w", Need: "n", Before: "5.0"}, {Symbol: "SYSVIPC", Value: "n", Why: "w", Need: "n", Arch: []string{"arm64"}},
	}}
	_, err := configure(t.Context(), &o)
	var lost *LostError
	if !errors.As(err, &lost) {
		t.Fatalf("%v, want lost symbols", err)
	}
	reasons := map[string]string{}
	for _, l := range lost.Lost {
		reasons[l.Symbol] = l.reason()
	}
	for symbol, parts := range map[string][]string{"NFT_MASQ": {"unmet: ", "NET [=n]", "NF_TABLES [=n]"}, "X86_X2APIC": {"X86_64 [=n]"},
		"NF_TABELS": {"this kernel does not know it: it is misspelt"}} {
		for _, part := range parts {
			if !strings.Contains(reasons[symbol], part) {
				t.Errorf("%s: %q, want %q", symbol, reasons[symbol], part)
			}
		}
	}
	if len(reasons) != 3 || strings.Contains(reasons["X86_X2APIC"], "IRQ_REMAP") {
		t.Errorf("lost are %q", reasons)
	}
}

// faulty is a tree whose configuration comes at once and whose build does as
// the recipe says: for what a real build does not do on demand.
func faulty(t *testing.T, recipe string) Options {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"Kconfig": "", "scripts/kconfig/Makefile": "",
		"Makefile": "allnoconfig:\n\t@cp $(KCONFIG_ALLCONFIG) $(O)/.config\nbzImage:\n" + recipe,
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return Options{Arch: X86, Source: dir, Build: t.TempDir(), Output: t.TempDir(), Way: BottomUp, Compression: "lz4", Jobs: 1}
}

func TestFailedBuild(t *testing.T) {
	o := faulty(t, "\t@echo '  CC      init/main.o'\n\t@echo 'init/main.c:1:2: error: expected a kernel' >&2\n\t@echo 'and more' >&2\n\t@false\n")
	var last Progress
	_, err := Build(t.Context(), o, func(p Progress) { last = p })
	var failed *BuildError
	if !errors.As(err, &failed) || failed.First != "init/main.c:1:2: error: expected a kernel" {
		t.Fatalf("%v", err)
	}
	if last != (Progress{1, "init/main.o"}) {
		t.Errorf("progress is %+v", last)
	}
	if log, err := os.ReadFile(failed.Log); err != nil || !strings.Contains(string(log), "and more") {
		t.Errorf("the log holds %q, %v", log, err)
	}
}

// A log that cannot be written is read on, so that make ends, and the error names the full
// disk: it is not the kernel's fault.
func TestFullLog(t *testing.T) {
	for _, ending := range []string{"true", "false"} {
		o := faulty(t, "\t@yes '  CC      init/main.o' | head -n 20000\n\t@"+ending+"\n") // more than a pipe holds
		if err := os.Symlink("/dev/full", filepath.Join(o.Build, "tare-build.log")); err != nil {
			t.Fatal(err)
		}
		made := 0
		_, err := Build(t.Context(), o, func(Progress) { made++ })
		if !errors.Is(err, syscall.ENOSPC) || errors.As(refused(t.Context(), err), new(*RefusedError)) {
			t.Errorf("%s: %v", ending, err)
		}
		if made != 20000 {
			t.Errorf("%s: %d of 20000 objects were read", ending, made)
		}
	}
}

// Where make alone says that something failed, what was said before it is quoted.
func TestQuotedReason(t *testing.T) {
	log := "  LD      vmlinux.o\nBTF: pahole (pahole) is not available\nFailed to generate BTF for vmlinux\nmake[2]: *** [Makefile.vmlinux:34: vmlinux] Error 1\nmake: *** [Makefile:250] Error 2\n"
	if _, quoted := follow(strings.NewReader(log), func(Progress) {}); quoted != "BTF: pahole (pahole) is not available; Failed to generate BTF for vmlinux" {
		t.Errorf("quoted %q", quoted)
	}
	if _, quoted := follow(strings.NewReader("make: *** No rule to make target 'bzImage'.  Stop.\n"), func(Progress) {}); quoted != "make: *** No rule to make target 'bzImage'.  Stop." {
		t.Errorf("quoted %q", quoted)
	}
}

// An interrupted build ends with all its processes.
func TestInterrupted(t *testing.T) {
	sleeper := fmt.Sprintf("1000.%d", os.Getpid()) // its process id is one of the build's own namespace
	o := faulty(t, "\t@echo '  CC      init/main.o'\n\t@sleep "+sleeper+" & wait\n")
	ctx, cancel := context.WithCancel(t.Context())
	began := time.Now()
	_, err := Build(ctx, o, func(Progress) { cancel() })
	if !errors.Is(err, context.Canceled) || time.Since(began) > 20*time.Second {
		t.Fatalf("%v after %v", err, time.Since(began))
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(lines) == 0 {
		t.Fatalf("%d processes, %v", len(lines), err)
	}
	for _, file := range lines {
		if line, err := os.ReadFile(file); err == nil && strings.Contains(string(line), sleeper) {
			t.Errorf("the build left a process: %s: %q", file, line)
		}
	}
}

// A second build in a directory is refused while the first one goes on, and not
// after it.
func TestBusy(t *testing.T) {
	o := faulty(t, "")
	for name, second := range map[string]Options{"objects": {Build: o.Build, Output: t.TempDir()}, "output": {Build: t.TempDir(), Output: o.Output}} {
		second.Source, second.Arch, second.Way, second.Compression, second.Jobs = o.Source, o.Arch, o.Way, o.Compression, o.Jobs
		unlock, err := o.lock()
		if err != nil {
			t.Fatal(err)
		}
		var busy *BusyError
		if _, err := Build(t.Context(), second, func(Progress) {}); !errors.As(err, &busy) {
			t.Errorf("the same %s: %v", name, err)
		}
		if err := unlock(); err != nil {
			t.Fatal(err)
		}
		unlock, err = second.lock()
		if err != nil {
			t.Fatalf("after it: %v", err)
		}
		if err := unlock(); err != nil {
			t.Fatal(err)
		}
	}
}

// An unpacked tree serves where apt knows no such package, and trees of one name
// have objects of their own.
func TestStore(t *testing.T) {
	store := StoreIn(t.TempDir())
	want := filepath.Join(string(store), "linux-source-9.99.0_9.99.0-2_all")
	for age, dir := range []string{want, filepath.Join(string(store), "linux-source-9.99.0_9.99.0-1_all")} {
		for _, name := range []string{"Kconfig", "Makefile", "scripts/kconfig/Makefile"} {
			file := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		then := time.Now().Add(-time.Duration(age) * time.Hour)
		if err := os.Chtimes(dir, then, then); err != nil {
			t.Fatal(err)
		}
	}
	got, err := store.Source(t.Context(), "linux-source-9.99.0", func(string) {})
	if err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	a, b := store.Objects("/home/a/linux", "bottom-up"), store.Objects("/home/b/linux", "bottom-up")
	if a == b || a != store.Objects("/home/a/linux", "bottom-up") || store.Objects(want) != filepath.Join(string(store), "build", filepath.Base(want)) {
		t.Errorf("objects lie in %q, %q and %q", a, b, store.Objects(want))
	}
}

// A source of another release than the machine's is asked of Debian's archive.
func TestSourceOfAnotherRelease(t *testing.T) {
	t.Setenv("DEBIAN_MIRROR", "http://127.0.0.1:9/debian")
	for name, suite := range suites {
		var unknown *SourceError
		if _, err := packageFile(t.Context(), name); !errors.As(err, &unknown) {
			continue
		}
		var fetch *FetchError
		if _, err := StoreIn(t.TempDir()).Source(t.Context(), name, func(string) {}); !errors.As(err, &fetch) || !strings.Contains(err.Error(), "Debian "+suite+" for amd64 cannot be had from http://127.0.0.1:9") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBadInput(t *testing.T) {
	store := StoreIn(t.TempDir())
	if _, err := store.Source(t.Context(), t.TempDir(), func(string) {}); err == nil || !strings.Contains(err.Error(), "is no kernel source tree") {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := store.Source(t.Context(), "linux-source-9.99", func(string) {}); err == nil || !strings.Contains(err.Error(), "no package linux-source-9.99") {
		t.Errorf("a package that does not exist: %v", err)
	}
	// What Debian 13 says, where apt takes the name for a regular expression.
	if got, err := offered("linux-source-6.1", "'http://deb.debian.org/l/linux-source-6.12_6.12.1-1_all.deb' linux-source-6.12_6.12.1-1_all.deb 1 SHA256:0\n"); err == nil || !strings.Contains(err.Error(), "no package linux-source-6.1: apt offers linux-source-6.12_") {
		t.Errorf("another version: %q, %v", got, err)
	}
	o := faulty(t, "")
	for message, change := range map[string]func(*Options){
		"no way": func(o *Options) { o.Way = "sideways" }, "no compression": func(o *Options) { o.Compression = "rar" },
		"name one with --base": func(o *Options) { o.Way = TopDown }, "at least 1": func(o *Options) { o.Jobs = 0 },
	} {
		bad := o
		change(&bad)
		if _, err := Build(t.Context(), bad, func(Progress) {}); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: %v", message, err)
		}
	}
	t.Setenv("PATH", t.TempDir())
	var tools *ToolsError
	if _, err := Build(t.Context(), o, func(Progress) {}); !errors.As(err, &tools) || !slices.Contains(tools.Packages, "flex") {
		t.Errorf("without tools: %v", err)
	}
}

// Each virtual machine that targets know of x86-64 has its need, and is given an
// image that it loads.
func TestMachines(t *testing.T) {
	for _, name := range []string{"vax", "qemu/q35xyz", "stratovirt"} {
		if _, err := MachineOf(name); err == nil || !strings.Contains(err.Error(), "there are qemu/q35, ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("kernels are made for x86-64")
	}
	for _, v := range vmm.VMMs() {
		m, err := MachineOf(v.Name)
		if err != nil {
			t.Error(err)
			continue
		}
		for compression, format := range map[Compression]vmm.Format{"none": vmm.PVH, "lz4": vmm.BzImage} {
			got, err := m.Pack(compression)
			if loads := slices.Contains(v.Formats, format); loads != (err == nil) || loads && got != compression {
				t.Errorf("%s loads %v, and with %s: %q, %v", v.Name, v.Formats, compression, got, err)
			}
		}
		if usual, err := m.Pack(""); err != nil || (usual == "none") == slices.Contains(v.Formats, vmm.BzImage) {
			t.Errorf("%s loads %v, and is given %q, %v", v.Name, v.Formats, usual, err)
		}
	}
}
