package vmm

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/tarelab/tare/internal/limit"
)

// Module is a kernel module, unpacked.
type Module struct {
	Name string // with underscores, as the kernel says it
	Data []byte
}

// Modules gives the wanted modules and those that they need, in the order in
// which they must be loaded, from a directory as /lib/modules/VERSION. A wanted
// one that is not there is in missing, unless modules.builtin says that the
// kernel has it.
func Modules(ctx context.Context, dir string, wanted []string) (ordered []Module, missing []string, err error) {
	files, builtin, err := listModules(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("kernel modules in %s: %w", dir, err)
	}
	done := map[string]bool{}
	var add func(name string, needed bool) error
	add = func(name string, needed bool) error {
		if done[name] || builtin[name] {
			return nil
		}
		done[name] = true
		file, ok := files[name]
		if !ok {
			if needed {
				missing = append(missing, name)
			}
			return nil
		}
		data, err := readModule(ctx, file)
		if err != nil {
			return fmt.Errorf("kernel module %s: %w", file, err)
		}
		needs, err := dependencies(data)
		if err != nil {
			return fmt.Errorf("kernel module %s: %w", file, err)
		}
		for _, n := range needs {
			if err := add(n, true); err != nil {
				return err
			}
		}
		ordered = append(ordered, Module{name, data})
		return nil
	}
	for _, name := range wanted {
		if err := add(name, true); err != nil {
			return nil, nil, err
		}
	}
	return ordered, missing, nil
}

func moduleName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// listModules finds all modules' files, and the names of those that are built
// into the kernel.
func listModules(dir string) (files map[string]string, builtin map[string]bool, err error) {
	files, builtin = map[string]string{}, map[string]bool{}
	err = filepath.WalkDir(filepath.Join(dir, "kernel"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.Contains(d.Name(), ".ko") {
			files[moduleName(path)] = path
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	for line := range strings.Lines(string(text)) {
		builtin[moduleName(strings.TrimSpace(line))] = true
	}
	return files, builtin, err
}

// readModule reads a module, which distributions may pack.
func readModule(ctx context.Context, file string) ([]byte, error) {
	data, err := readKernel(file)
	if err != nil {
		return nil, err
	}
	switch filepath.Ext(file) {
	case ".ko":
		return data, nil
	case ".gz":
		return gunzip(data)
	case ".zst":
		z, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		return readAll(z)
	case ".xz":
		return unpackWith(ctx, data, "xz", "-dc")
	}
	return nil, fmt.Errorf("packed in a way that is not known here")
}

// dependencies are the modules that a module names in its section .modinfo.
func dependencies(module []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("it has no section .modinfo")
	}
	// The size is that after decompression; a compressed section is unpacked whole.
	if err := limit.ModuleInfo.CheckBytes(int64(min(section.Size, math.MaxInt64))); err != nil {
		return nil, err
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for entry := range strings.SplitSeq(string(info), "\x00") {
		list, ok := strings.CutPrefix(entry, "depends=")
		if !ok || list == "" {
			continue
		}
		names := strings.Split(list, ",")
		for i := range names {
			names[i] = strings.ReplaceAll(names[i], "-", "_")
		}
		return names, nil
	}
	return nil, nil
}
