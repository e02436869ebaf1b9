package kbuild_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/kerneltools/kbuild"
)

// tree writes a small kernel tree.
func tree(t *testing.T, files map[string]string) *kbuild.Tree {
	t.Helper()
	return treeFor(t, "x86", files)
}

func treeFor(t *testing.T, arch string, files map[string]string) *kbuild.Tree {
	t.Helper()
	dir := t.TempDir()
	base := map[string]string{
		"Kconfig": "", "init/Makefile": "obj-y := main.o\n", "init/main.c": "", "arch/x86/Makefile": "core-$(CONFIG_XEN) += arch/x86/xen/\n",
		"Makefile": "core-y := init/\n",
		"Kbuild":   "obj-y += drivers/\nobj-$(CONFIG_NET) += net/\nobj-y += arch/$(SRCARCH)/\n",
	}
	for name, text := range base {
		if _, ok := files[name]; !ok {
			files[name] = text
		}
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	found, err := kbuild.Open(dir, arch)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func small(t *testing.T) *kbuild.Tree {
	return tree(t, map[string]string{
		"drivers/Makefile":        "obj-$(CONFIG_RTC_LIB)\t\t+= rtc/\nobj-y += base/\nifdef CONFIG_USB_SUPPORT\nobj-y += usb/core/\nendif\n",
		"drivers/rtc/Makefile":    "obj-$(CONFIG_RTC_CLASS) += rtc-core.o\nrtc-core-y := class.o \\\n\tinterface.o # comment\nrtc-core-$(CONFIG_RTC_NVMEM) += nvmem.o\nobj-$(CONFIG_RTC_DRV_CMOS) += rtc-cmos.o\n",
		"drivers/rtc/class.c":     "subsys_initcall(rtc_init);\n",
		"drivers/rtc/nvmem.c":     "",
		"drivers/rtc/rtc-cmos.c":  "module_init(cmos_init);\n\tmodule_platform_driver(cmos_other);\n",
		"drivers/usb/core/Kbuild": "obj-$(subst m,y,$(CONFIG_USB)) += usb.o\n",
		"drivers/usb/core/usb.c":  "subsys_initcall(twin_init);",
		"drivers/base/Makefile":   "obj-y := core.o\n",
		"drivers/base/core.c":     "core_initcall(twin_init);\nmodule_pci_driver(thing);\n",
		"net/Makefile":            "obj-y += socket.o\n",
		"net/socket.c":            "core_initcall(sock_init);",
		"arch/x86/Kbuild":         "obj-y += kernel/\n",
		"arch/x86/xen/Makefile":   "obj-y += setup.o\n",
		"arch/arm/x.c":            "core_initcall(sock_init);",
		"loose.c":                 "",
	})
}

func TestSymbol(t *testing.T) {
	tr := small(t)
	for object, want := range map[string]struct {
		symbol string
		found  bool
	}{
		"drivers/rtc/class.o":     {"RTC_CLASS", true},
		"drivers/rtc/interface.o": {"RTC_CLASS", true},
		"drivers/rtc/nvmem.o":     {"RTC_NVMEM", true},
		"drivers/rtc/rtc-cmos.o":  {"RTC_DRV_CMOS", true},
		"drivers/usb/core/usb.o":  {"USB", true},
		"drivers/base/core.o":     {"", true},
		"net/socket.o":            {"NET", true},
		"arch/x86/xen/setup.o":    {"XEN", true},
		"drivers/rtc/gone.o":      {"", false},
		"../../etc/passwd.o":      {"", false},
	} {
		if symbol, found := tr.Symbol(object); symbol != want.symbol || found != want.found {
			t.Errorf("%s: %q, %v; want %q, %v", object, symbol, found, want.symbol, want.found)
		}
	}
}

func TestFind(t *testing.T) {
	got, err := small(t).Find(t.Context(), []string{"rtc_init", "cmos_init", "cmos_other_init", "twin_init", "thing_init", "sock_init", "nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"rtc_init": "drivers/rtc/class.o=RTC_CLASS", "cmos_init": "drivers/rtc/rtc-cmos.o=RTC_DRV_CMOS",
		"cmos_other_init": "drivers/rtc/rtc-cmos.o=RTC_DRV_CMOS", "thing_init": "drivers/base/core.o=",
		"twin_init": "drivers/base/core.o= drivers/usb/core/usb.o=USB", "sock_init": "net/socket.o=NET", "nowhere": "",
	} {
		var have []string
		for _, o := range got[name] {
			have = append(have, o.Object+"="+o.Symbol)
		}
		if strings.Join(have, " ") != want {
			t.Errorf("%s: %q, want %q", name, have, want)
		}
	}
}

func TestOpen(t *testing.T) {
	if _, err := kbuild.Open(t.TempDir(), "x86"); err == nil || !strings.Contains(err.Error(), "is no kernel source tree: it has no Makefile") {
		t.Errorf("an empty directory: %v", err)
	}
}
