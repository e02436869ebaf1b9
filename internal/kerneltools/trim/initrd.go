package trim

import (
	"bytes"
	"context"
	"debug/elf"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/image"
)

// InitScript is the first process of Initramfs.
//
//go:embed initrd/init.sh
var InitScript string

// InitrdName is the initramfs's file in the output directory.
const InitrdName = "initrd.cpio"

// Initramfs writes a minimal initramfs: busybox, which is the program's file, and
// InitScript, which mounts the root that the kernel's command line names: /dev/NAME,
// UUID= or LABEL=, of a file system that the kernel has built in. It loads no modules
// and knows neither LVM, RAID, encryption nor networks. It is not compressed.
func Initramfs(ctx context.Context, to io.Writer, busybox []byte) error {
	return image.Initramfs(ctx, to, "", []image.File{{Path: "/bin/busybox", Mode: 0o755, Data: busybox}, {Path: "/init", Mode: 0o755, Data: []byte(InitScript)}})
}

// applets are those of busybox that InitScript runs.
var applets = []string{"sh", "mkdir", "mount", "umount", "findfs", "cat", "sleep", "switch_root"}

// findBusybox is this machine's busybox, if an initramfs can hold it: alone, without
// libraries, and with all applets.
func findBusybox(ctx context.Context, a Arch) ([]byte, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	file, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if file.Machine != ports[a].machine || slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return nil, fmt.Errorf("%s is not static, or not for %s", path, a)
	}
	list, err := run(ctx, "", path, "--list")
	if err != nil {
		return nil, err
	}
	if lacks := minus(applets, strings.Fields(list)); len(lacks) > 0 {
		return nil, fmt.Errorf("%s has no %s", path, strings.Join(lacks, ", "))
	}
	return program, nil
}

// writeInitrd puts the initramfs into o.Output, and gives its file and size in bytes.
func (o *Options) writeInitrd(ctx context.Context) (string, int64, error) {
	busybox, err := findBusybox(ctx, o.Arch)
	if err != nil {
		return "", 0, fmt.Errorf("initramfs: %w", err)
	}
	file := filepath.Join(o.Output, InitrdName)
	f, err := os.Create(file)
	if err != nil {
		return "", 0, fmt.Errorf("initramfs: %w", err)
	}
	if err := errors.Join(Initramfs(ctx, f, busybox), f.Close()); err != nil {
		return "", 0, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return "", 0, fmt.Errorf("initramfs: %w", err)
	}
	return file, info.Size(), nil
}
