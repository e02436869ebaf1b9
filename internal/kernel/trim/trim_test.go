package trim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/kernel/kconfig"
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
	tree, err := Source(t.Context(), "linux-source-6.1", filepath.Join(cache, "tare", "kernel"), func(s string) { t.Log(s) })
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
		o := Options{Source: tree, Build: build, Way: way, Compression: "lz4", Jobs: 2,
			Wants: wants(t, "docker", "podman", "ext4", "systemd", "virtio-pci", "virtio-mmio")}
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
		if v := c.Config.Values; v["MODULES"] == "y" || v["KERNEL_LZ4"] != "y" || v["USB_SUPPORT"] == "y" || v["SECURITY_APPARMOR"] == "y" {
			t.Errorf("%s: modules %q, lz4 %q, USB %q, AppArmor %q", way, v["MODULES"], v["KERNEL_LZ4"], v["USB_SUPPORT"], v["SECURITY_APPARMOR"])
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

// A wanted symbol that Kconfig drops is an error that names what it depends on.
func TestUnmetDependency(t *testing.T) {
	o := Options{Source: source(t), Build: t.TempDir(), Way: BottomUp, Compression: "lz4", Jobs: 1, Wants: []kconfig.Want{
		{Symbol: "NFT_MASQ", Why: "w", Need: "n"}, {Symbol: "NO_SUCH_SYMBOL", Why: "w", Need: "n"}, {Symbol: "SYSVIPC", Why: "w", Need: "n"},
	}}
	_, err := configure(t.Context(), &o)
	var lost *LostError
	if !errors.As(err, &lost) || len(lost.Lost) != 1 || lost.Lost[0].Symbol != "NFT_MASQ" {
		t.Fatalf("%v, want one lost symbol", err)
	}
	if unmet := strings.Join(lost.Lost[0].Unmet, " "); !strings.Contains(unmet, "NET [=n]") || !strings.Contains(unmet, "NF_TABLES [=n]") {
		t.Errorf("unmet are %q", unmet)
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
	return Options{Source: dir, Build: t.TempDir(), Output: t.TempDir(), Way: BottomUp, Compression: "lz4", Jobs: 1}
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

// An interrupted build ends with all its processes.
func TestInterrupted(t *testing.T) {
	o := faulty(t, "\t@echo '  CC      init/main.o'\n\t@sleep 1000 & echo $$! >$(O)/sleeper; wait\n")
	ctx, cancel := context.WithCancel(t.Context())
	began := time.Now()
	_, err := Build(ctx, o, func(Progress) { cancel() })
	if !errors.Is(err, context.Canceled) || time.Since(began) > 20*time.Second {
		t.Fatalf("%v after %v", err, time.Since(began))
	}
	if pid, err := os.ReadFile(filepath.Join(o.Build, "sleeper")); err == nil {
		if state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat"); err == nil && !strings.Contains(string(state), ") Z ") {
			t.Errorf("the build left a process: %s", state)
		}
	}
}

func TestBadInput(t *testing.T) {
	if _, err := Source(t.Context(), t.TempDir(), t.TempDir(), func(string) {}); err == nil || !strings.Contains(err.Error(), "is no kernel source tree") {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := Source(t.Context(), "linux-source-9.99", t.TempDir(), func(string) {}); err == nil || !strings.Contains(err.Error(), "no package linux-source-9.99") {
		t.Errorf("a package that does not exist: %v", err)
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
	if _, err := NeedOfVM("vax"); err == nil || !strings.Contains(err.Error(), "qemu/microvm") {
		t.Errorf("an unknown machine: %v", err)
	}
}
