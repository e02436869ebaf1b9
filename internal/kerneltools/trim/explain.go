package trim

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/kerneltools/kconfig"
)

//go:embed explain/explain.c
var explainSource []byte

// explain says of each lost symbol which of its dependencies is off, by the
// source's own Kconfig: its parser is built already, for the configuration.
func explain(ctx context.Context, o *Options, lost []Lost) ([]Lost, error) {
	if len(lost) == 0 {
		return nil, nil
	}
	var names []string
	for _, l := range lost {
		names = append(names, l.Symbol)
	}
	blocks, err := ask(ctx, o, names)
	if err != nil {
		return nil, err
	}
	for i := range lost {
		b := blocks[lost[i].Symbol]
		if b.value == "?" {
			lost[i].State = kconfig.Unknown
			continue
		}
		lost[i].Unmet, lost[i].SelectedBy = b.unmet, b.by
	}
	return lost, nil
}

// ask has the source's Kconfig say of symbols what decides on them in the
// configuration in o.Build.
func ask(ctx context.Context, o *Options, symbols []string) (map[string]relation, error) {
	program, err := linkKconfig(ctx, o, "tare-explain", explainSource)
	if err != nil {
		return nil, fmt.Errorf("ask Kconfig for dependencies: %w", err)
	}
	cmd := exec.CommandContext(ctx, program, "Kconfig")
	cmd.Dir = o.Build
	cmd.Stdin = strings.NewReader(strings.Join(symbols, "\n") + "\n")
	cmd.Env = kconfigEnv(ctx, o)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ask Kconfig for dependencies: %w: %s", err, strings.TrimSpace(said.String()))
	}
	return relations(string(out)), nil
}

// linkKconfig makes a program of a C source and the objects of scripts/kconfig, in o.Build.
func linkKconfig(ctx context.Context, o *Options, name string, text []byte) (string, error) {
	objects, err := filepath.Glob(filepath.Join(o.Build, "scripts", "kconfig", "*.o"))
	if err != nil {
		return "", err
	}
	front := []string{"conf.o", "mconf.o", "nconf.o", "nconf.gui.o", "gconf.o", "qconf.o", "images.o", "mnconf-common.o"}
	objects = slices.DeleteFunc(objects, func(p string) bool { return slices.Contains(front, filepath.Base(p)) })
	source := filepath.Join(o.Build, name+".c")
	if err := os.WriteFile(source, text, 0o644); err != nil {
		return "", err
	}
	program := filepath.Join(o.Build, name)
	args := []string{"-O1", "-D_GNU_SOURCE", "-I" + filepath.Join(o.Source, "scripts", "kconfig"), "-I" + filepath.Join(o.Source, "scripts", "include"), "-o", program, source}
	_, err = run(ctx, o.Build, "gcc", append(args, objects...)...)
	return program, err
}

// kconfigEnv is what the kernel's Makefile hands to Kconfig.
func kconfigEnv(ctx context.Context, o *Options) []string {
	version, _ := run(ctx, o.Source, "make", "-s", "kernelversion") // only shown, in the configuration's first line
	compiler, _ := run(ctx, "", o.Arch.tool("gcc"), "--version")    // the same
	first, _, _ := strings.Cut(compiler, "\n")
	return append(os.Environ(), "LC_ALL=C", "srctree="+o.Source, "objtree=.", "ARCH="+string(o.Arch), "SRCARCH="+string(o.Arch), "CC="+o.Arch.tool("gcc"), "HOSTCC=gcc", "HOSTCXX=g++",
		"LD="+o.Arch.tool("ld"), "AR="+o.Arch.tool("ar"), "NM="+o.Arch.tool("nm"), "OBJCOPY="+o.Arch.tool("objcopy"), "STRIP="+o.Arch.tool("strip"), "RUSTC=rustc", "BINDGEN=bindgen", "PAHOLE=pahole",
		"CC_VERSION_TEXT="+first, "KERNELVERSION="+strings.TrimSpace(version), "KCONFIG_CONFIG=.config")
}

// relation is what Kconfig says of a symbol.
type relation struct {
	value string   // "?": the source does not have it
	unmet []string // terms of its dependencies that are off
	by    []string // that are on and select it
	asked bool     // people are asked for it, and not which of several
}

var (
	blockHead = regexp.MustCompile(`^= (\S+) (.*)$`)
	selector  = regexp.MustCompile(`(\w+) \[=\w+\]`)
)

// relations reads the blocks that explain.c prints.
func relations(text string) map[string]relation {
	out := map[string]relation{}
	name, selectors := "", false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if m := blockHead.FindStringSubmatch(line); m != nil {
			name, selectors = m[1], false
			out[name] = relation{value: m[2]}
			continue
		}
		r := out[name]
		if selects, ok := strings.CutPrefix(line, "- "); ok {
			if m := selector.FindStringSubmatch(selects); selectors && m != nil {
				r.by = append(r.by, m[1])
			}
		} else {
			selectors = line == "Selected by [y]:"
		}
		if strings.HasPrefix(line, "Prompt: ") {
			r.asked = true
		}
		if term, ok := strings.CutPrefix(line, "Unmet: "); ok {
			r.unmet = append(r.unmet, term)
		}
		if strings.HasPrefix(line, "Depends on: <choice>") {
			r.asked = false
		}
		out[name] = r
	}
	return out
}
