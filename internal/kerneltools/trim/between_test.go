package trim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/kerneltools/kconfig"
)

// container is the configuration of a container host's kernel, with further lines.
func container(t *testing.T, lines ...string) *kconfig.Config {
	t.Helper()
	f, err := os.Open("../kconfig/testdata/container-6.1.config.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := kconfig.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	text := "# Linux/x86 6.1.0 Kernel Configuration\n" + textOf(c) + "CONFIG_DEBUG_KERNEL=y\n" + strings.Join(lines, "\n") + "\n"
	if c, err = kconfig.Parse(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestBetween lists real configurations: each has one option more than the one before, or
// several that depend on each other.
func TestBetween(t *testing.T) {
	o := Options{Arch: X86, Source: source(t), Build: t.TempDir(), Jobs: 1}
	for name, c := range map[string]struct {
		good, bad []string
		want      []string
		ignored   string
		err       string
	}{
		"in the file's order, on before off": {[]string{"CONFIG_DEBUG_LIST=y"}, []string{"# CONFIG_DEBUG_LIST is not set", "CONFIG_DEBUG_NOTIFIERS=y", "CONFIG_INIT_ON_ALLOC_DEFAULT_ON=y"},
			[]string{"CONFIG_INIT_ON_ALLOC_DEFAULT_ON=y", "CONFIG_DEBUG_NOTIFIERS=y", "CONFIG_DEBUG_LIST=n"}, "", ""},
		"one brings others":     {nil, []string{"CONFIG_PROVE_LOCKING=y"}, []string{"CONFIG_KALLSYMS_ALL=y", "CONFIG_PROVE_LOCKING=y and more"}, "", ""},
		"one needs a later one": {[]string{"# CONFIG_PROFILING is not set"}, []string{"CONFIG_PROFILING=y"}, []string{"CONFIG_PROFILING=y"}, "", ""},
		"one of several":        {[]string{"CONFIG_HZ_250=y"}, []string{"CONFIG_HZ_1000=y"}, []string{"CONFIG_HZ_1000=y and more"}, "", ""},
		"what was selected stays until its turn": {[]string{"CONFIG_PROVE_LOCKING=y"}, []string{"# CONFIG_PROVE_LOCKING is not set"},
			[]string{"CONFIG_PROVE_LOCKING=n and more", "CONFIG_DEBUG_WW_MUTEX_SLOWPATH=n", "CONFIG_DEBUG_RWSEMS=n", "CONFIG_DEBUG_LOCK_ALLOC=n and more"}, "", ""},
		"a dependency is off":         {nil, []string{"CONFIG_DEBUG_LIST=y", "CONFIG_RUST=y"}, []string{"CONFIG_DEBUG_LIST=y"}, "CONFIG_RUST=y", ""},
		"the same after olddefconfig": {nil, []string{"CONFIG_RUST=y"}, nil, "", "the same after make olddefconfig"},
		"unknown":                     {nil, []string{"CONFIG_DEBUG_LIST=y", "CONFIG_DEBUG_LISTS=y"}, nil, "", "has no option CONFIG_DEBUG_LISTS"},
		"unknown and long":            {nil, []string{"CONFIG_" + strings.Repeat("A", 300) + "=y"}, nil, "", "has no option CONFIG_AAA"},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := o.Between(t.Context(), container(t, c.good...), container(t, c.bad...))
			if c.err != "" {
				if no := new(ConfigError); !errors.As(err, &no) || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, change := range b.Changes {
				what := change.Option
				if len(change.With) > 0 {
					what += " and more"
				}
				got = append(got, what)
			}
			if !slices.Equal(got, c.want) || !strings.Contains(strings.Join(b.Ignored, " "), c.ignored) {
				t.Errorf("%q, ignored %q; want %q", got, b.Ignored, c.want)
			}
			// make settles each as the list says: all before a change are as the good one.
			before := b.Good
			for i, change := range b.Changes {
				now, err := b.o.settle(t.Context(), b.text(change.upTo))
				if err != nil || len(before.Differ(now)) != 1+len(change.With) {
					t.Errorf("configuration %d: %d options changed, want %s and %q (%v)", i+1, len(before.Differ(now)), change.Option, change.With, err)
				}
				before = now
			}
			if d := before.Differ(b.Bad); len(d) > 0 {
				t.Errorf("the last one is not the bad one: %q", d)
			}
		})
	}
}

// TestNotComparable: what is refused without asking Kconfig, and before tools are missed.
func TestNotComparable(t *testing.T) {
	o := faulty(t, "")
	if err := os.WriteFile(filepath.Join(o.Source, "Makefile"), []byte("VERSION = 6\nPATCHLEVEL = 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	parse := func(text string) *kconfig.Config {
		c, err := kconfig.Parse(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	t.Setenv("PATH", t.TempDir())
	for _, c := range []struct{ good, bad, want string }{
		{"CONFIG_A=y\n", "CONFIG_A=y\n# CONFIG_B is not set\n", "have the same options"},
		{"# Linux/x86 6.12.3 Kernel Configuration\nCONFIG_A=y\n", "CONFIG_B=y\n", "is of Linux 6.12.3"},
		{"# Linux/x86 6.1.3 Kernel Configuration\nCONFIG_A=y\n", "# Linux/x86 6.10.0 Kernel Configuration\nCONFIG_A=y\n", "is of Linux 6.10.0"},
		{"# Linux/arm64 6.1.3 Kernel Configuration\nCONFIG_A=y\n", "CONFIG_B=y\n", "architecture arm64"},
		{"CONFIG_A=y\n", "CONFIG_A=\"$(shell id)\"\n", "CONFIG_A=\"$(shell id)\": its value could run a command"},
		{"CONFIG_A=\"`id`\"\n", "CONFIG_A=y\n", "could run a command"},
	} {
		if _, err := o.Between(t.Context(), parse(c.good), parse(c.bad)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q and %q: %v, want %s", c.good, c.bad, err, c.want)
		}
	}
	var many strings.Builder // unknown to every source, but it must come to that quickly
	for i := range 100_000 {
		fmt.Fprintf(&many, "CONFIG_A%d=y\n", i)
	}
	var missing *ToolsError
	if _, err := o.Between(t.Context(), parse("CONFIG_A=y\n"), parse(many.String())); !errors.As(err, &missing) {
		t.Errorf("many options: %v", err)
	}
}

// TestBuildBetween: a kernel that is there is not built again, one of another configuration
// is, and a build that fails is the configuration's fault.
func TestBuildBetween(t *testing.T) {
	o := faulty(t, "\t@echo 'mm/slub.c:1:2: error: expected a slab' >&2\n\t@false\n")
	makefile := filepath.Join(o.Source, "Makefile")
	text, err := os.ReadFile(makefile)
	if err == nil {
		err = os.WriteFile(makefile, append([]byte("olddefconfig:\n\t@true\n"), text...), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	config := func(text string) *kconfig.Config {
		c, err := kconfig.Parse(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	b := &Between{o: o, Good: config("CONFIG_A=y\n# CONFIG_B is not set\n"), Bad: config("CONFIG_A=y\nCONFIG_B=y\n"),
		options: []string{"CONFIG_B=y"}, Changes: []Change{{Symbol: "B", Option: "CONFIG_B=y", upTo: 1}}}
	output := t.TempDir()
	for name, text := range map[string]string{"kernel.json": `{"release":"6.1.0"}`, "config": "CONFIG_A=y\n", "bzImage": "a kernel"} {
		if err := os.WriteFile(filepath.Join(output, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for at, failed := range map[int]string{0: "", 1: "mm/slub.c:1:2: error: expected a slab"} {
		r, err := b.Build(t.Context(), at, output, func(Progress) {})
		if failed == "" && (err != nil || r.Image != filepath.Join(output, "bzImage") || r.Release != "6.1.0") {
			t.Errorf("one that is there: %+v, %v", r, err)
		}
		if no := new(RefusedError); failed != "" && (!errors.As(err, &no) || !strings.Contains(no.Why, failed)) {
			t.Errorf("one that fails: %v", err)
		}
	}
}
