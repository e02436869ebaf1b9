package trim

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// An Arch is a CPU that kernels are made for, as the source's directory arch and the
// first lines of a configuration name it.
type Arch string

// The architectures.
const (
	X86   Arch = "x86"
	ARM64 Arch = "arm64"
)

// ports are what else an architecture is called.
var ports = map[Arch]struct {
	goarch  string
	triple  string // of the compiler, as Debian's cross compilers name it
	machine elf.Machine
}{X86: {"amd64", "x86_64-linux-gnu", elf.EM_X86_64}, ARM64: {"arm64", "aarch64-linux-gnu", elf.EM_AARCH64}}

// GOARCH is its name in Go.
func (a Arch) GOARCH() string { return ports[a].goarch }

// own is this machine's architecture; x86 where kernels are not made for it.
func own() Arch {
	if runtime.GOARCH == ports[ARM64].goarch {
		return ARM64
	}
	return X86
}

// foreign says that its compiler is a cross compiler here.
func (a Arch) foreign() bool { return ports[a].goarch != runtime.GOARCH }

// tool is a program of the compiler for the architecture, by its name without prefix.
func (a Arch) tool(name string) string {
	if a.foreign() {
		return ports[a].triple + "-" + name
	}
	return name
}

// variables are what make is told of the architecture.
func (a Arch) variables() []string {
	prefix, _ := strings.CutSuffix(a.tool("gcc"), "gcc")
	return []string{"ARCH=" + string(a), "CROSS_COMPILE=" + prefix}
}

// image is the file that make is asked for, and that is put into the output directory.
func (o *Options) image() string {
	switch {
	case o.Arch == ARM64 && o.Compression == "none":
		return "Image"
	case o.Arch == ARM64:
		return "Image.gz"
	case o.Compression == "none":
		return "vmlinux"
	}
	return "bzImage"
}

var erratum = regexp.MustCompile(`(?m)^config (\w*ERRATUM\w*)$`)

// errata are the symbols by which a kernel works around what is wrong with some CPUs. It
// may be started on any of them, so it has all; x86 has none to choose.
func (o *Options) errata() (symbols []string, err error) {
	if o.Arch == X86 {
		return nil, nil
	}
	text, err := os.ReadFile(filepath.Join(o.Source, "arch", string(o.Arch), "Kconfig"))
	if err != nil {
		return nil, fmt.Errorf("errata of %s: %w", o.Arch, err)
	}
	for _, m := range erratum.FindAllSubmatch(text, -1) {
		symbols = append(symbols, string(m[1]))
	}
	return symbols, nil
}
