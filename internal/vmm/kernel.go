package vmm

import (
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
)

// Format is how a kernel's file is made, which decides who can boot it.
type Format string

// The formats that kernels come in.
const (
	BzImage Format = "bzImage" // x86: a small loader with the compressed kernel behind it
	Vmlinux Format = "vmlinux" // the kernel itself, an ELF file
	PVH     Format = "pvh"     // x86: an ELF file with the entry point that needs no loader
	Image   Format = "Image"   // arm64, riscv64, loong64: the kernel itself, flat
	ZBoot   Format = "zboot"   // an EFI program with a compressed Image in it
	Gzip    Format = "gzip"    // any of them, packed once more: arm64's Image.gz
)

// mostKernel bounds a kernel and a module in bytes, packed and unpacked, whatever a
// file's header says.
var mostKernel int64 = 1 << 30

// Kernel is a kernel's file, and what its header says.
type Kernel struct {
	Path    string
	Format  Format
	Arch    string // as GOARCH has it
	Version string // "6.1.0-56-cloud-amd64"; "" where the file does not say
	Digest  string // sha256 of the file
}

// Offsets in a bzImage (Documentation/arch/x86/boot.rst in Linux).
const (
	setupSectors  = 0x1f1
	headerMagic   = 0x202
	kernelVersion = 0x20e
	payloadOffset = 0x248
	payloadLength = 0x24c
)

// Inspect reads a kernel's header. The error of a file that is no kernel says
// what it looks like.
func Inspect(path string) (Kernel, error) {
	k := Kernel{Path: path}
	data, err := readKernel(path)
	if err != nil {
		return k, fmt.Errorf("kernel %s: %w", path, err)
	}
	k.Digest = fmt.Sprintf("sha256:%x", sha256.Sum256(data))
	if err := k.inspect(data); err != nil {
		return k, fmt.Errorf("kernel %s: %w", path, err)
	}
	return k, nil
}

// Config is the path of the kernel's configuration in the same directory; "" for none. The
// file is config-VERSION, as distributions call it, or config.
func (k Kernel) Config() string {
	for _, name := range []string{strings.Replace(filepath.Base(k.Path), "vmlinuz-", "config-", 1), "config"} {
		file := filepath.Join(filepath.Dir(k.Path), name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && file != k.Path {
			return file
		}
	}
	return ""
}

// Lacks are the symbols, of those given, that the kernel's configuration does not have. It
// is empty for a kernel without Config.
func (k Kernel) Lacks(symbols []string) []string {
	file := k.Config()
	if file == "" {
		return nil
	}
	config, err := sys.ReadForeign(file, limit.Kconfig)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(symbols), func(symbol string) bool {
		return bytes.Contains(config, []byte("\nCONFIG_"+symbol+"=y\n")) || bytes.Contains(config, []byte("\nCONFIG_"+symbol+"=m\n"))
	})
}

// readKernel reads a file that may be a kernel, and refuses one that cannot be.
func readKernel(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f)
}

// readAll is io.ReadAll of what may be a kernel.
func readAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, mostKernel+1))
	if int64(len(data)) > mostKernel {
		return nil, fmt.Errorf("it has more than %d MiB, and is no kernel", mostKernel>>20)
	}
	return data, err
}

// inspect reads the header of a file's contents.
func (k *Kernel) inspect(data []byte) (err error) {
	word := binary.LittleEndian
	switch {
	case bytes.HasPrefix(data, gzipMagic):
		return k.inspectGzip(data)
	case len(data) < 4096:
		return fmt.Errorf("it has %d bytes, too few for a kernel", len(data))
	case string(data[headerMagic:headerMagic+4]) == "HdrS":
		k.Format, k.Arch = BzImage, "amd64"
		at := int(word.Uint16(data[kernelVersion:])) + 0x200
		if at > 0x200 && at < len(data)-256 {
			k.Version, _, _ = strings.Cut(string(data[at:at+256]), " ")
		}
	case string(data[:4]) == elf.ELFMAG:
		err = k.inspectELF(data)
	case string(data[4:8]) == "zimg":
		k.Format = ZBoot
		k.Arch, err = peArch(data)
	case string(data[56:60]) == "ARM\x64":
		k.Format, k.Arch = Image, "arm64"
	case string(data[56:60]) == "RSC\x05":
		k.Format, k.Arch = Image, "riscv64"
	case string(data[:2]) == "MZ":
		k.Format = Image
		k.Arch, err = peArch(data)
	default:
		err = fmt.Errorf("it is no kernel that tare knows: it begins with %q", data[:8])
	}
	if err == nil && k.Version == "" {
		k.Version = banner(data)
	}
	return err
}

var gzipMagic = []byte{0x1f, 0x8b}

// inspectGzip reads the header of what is packed.
func (k *Kernel) inspectGzip(data []byte) error {
	plain, err := gunzip(data)
	if err != nil {
		return fmt.Errorf("it is a gzip file: %w", err)
	}
	if bytes.HasPrefix(plain, gzipMagic) { // some unpack to themselves
		return errors.New("it is a gzip file with another in it")
	}
	inner := Kernel{}
	if err := inner.inspect(plain); err != nil {
		return fmt.Errorf("it is a gzip file, and what is in it: %w", err)
	}
	k.Format, k.Arch, k.Version = Gzip, inner.Arch, inner.Version
	return nil
}

// gunzip unpacks a gzip file, which holds a sum and a length of its own.
func gunzip(data []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	z.Multistream(false)
	return readAll(z)
}

// banner finds the version in a kernel that is not compressed.
func banner(data []byte) string {
	if m := regexp.MustCompile(`Linux version ([^ %\x00]+) `).FindSubmatch(data); m != nil {
		return string(m[1])
	}
	return ""
}

// inspectELF finds the architecture, and whether a Xen note names the entry
// point of PVH (XEN_ELFNOTE_PHYS32_ENTRY, include/xen/interface/elfnote.h).
func (k *Kernel) inspectELF(data []byte) error {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return err
	}
	k.Format = Vmlinux
	k.Arch = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_RISCV: "riscv64", elf.EM_LOONGARCH: "loong64", elf.EM_MIPS: "mips64le"}[f.Machine]
	if k.Arch == "" {
		return fmt.Errorf("it is for %v", f.Machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("it is a program, and no kernel")
		}
		if p.Type != elf.PT_NOTE {
			continue
		}
		notes, err := io.ReadAll(p.Open())
		if err != nil {
			return err
		}
		if bytes.Contains(notes, []byte("\x12\x00\x00\x00Xen\x00")) {
			k.Format = PVH
		}
	}
	return nil
}

// peArch reads the machine of an EFI program's header (PE/COFF specification).
func peArch(data []byte) (string, error) {
	at := int(binary.LittleEndian.Uint32(data[0x3c:]))
	if at+6 > len(data) || string(data[at:at+4]) != "PE\x00\x00" {
		return "", errors.New("it is neither a kernel nor an EFI program")
	}
	machine := binary.LittleEndian.Uint16(data[at+4:])
	arch := map[uint16]string{0x8664: "amd64", 0xaa64: "arm64", 0x5064: "riscv64", 0x6264: "loong64"}[machine]
	if arch == "" {
		return "", fmt.Errorf("it is an EFI program for machine type %#x", machine)
	}
	return arch, nil
}

// Fits says what is wrong with a kernel for this machine.
func (k Kernel) Fits() error {
	return k.fits(runtime.GOARCH)
}

func (k Kernel) fits(arch string) error {
	if k.Arch != arch {
		return fmt.Errorf("kernel %s is for %s (%s), and the machine is %s", k.Path, k.Arch, k.Format, arch)
	}
	return nil
}

// unpacked gives the kernel that is packed into k, kept below dir by k's
// digest: a VMM that loads it saves the guest the unpacking, and some load
// nothing else. A kernel that is not packed is returned as it is.
func (k Kernel) unpacked(ctx context.Context, dir string) (Kernel, error) {
	if k.Format != BzImage && k.Format != ZBoot && k.Format != Gzip {
		return k, nil
	}
	file := filepath.Join(dir, strings.TrimPrefix(k.Digest, "sha256:")+".unpacked")
	if _, err := os.Stat(file); err != nil {
		if err := k.unpack(ctx, file); err != nil {
			return k, fmt.Errorf("unpack kernel %s: %w", k.Path, err)
		}
	}
	inner, err := Inspect(file)
	if inner.Version == "" {
		inner.Version = k.Version
	}
	return inner, err
}

func (k Kernel) unpack(ctx context.Context, file string) error {
	data, err := readKernel(k.Path)
	if err != nil {
		return err
	}
	var plain []byte
	if k.Format == Gzip {
		plain, err = gunzip(data)
	} else {
		plain, err = k.payload(ctx, data)
	}
	if err != nil {
		return err
	}
	return keep(file, func(w io.Writer) error {
		_, err := w.Write(plain)
		return err
	})
}

// payload unpacks the kernel within a loader. Its build puts the unpacked length, a
// u32, behind what it packs: x86 counts that as a part of the payload, zboot does not.
func (k Kernel) payload(ctx context.Context, data []byte) ([]byte, error) {
	word := binary.LittleEndian
	var from, end, length int
	if k.Format == BzImage {
		from = (int(data[setupSectors])+1)*512 + int(word.Uint32(data[payloadOffset:]))
		end = from + int(word.Uint32(data[payloadLength:]))
		length = end - 4
	} else { // drivers/firmware/efi/libstub/zboot-header.S in Linux
		from = int(word.Uint32(data[8:]))
		end = from + int(word.Uint32(data[12:]))
		length = end
	}
	if from < 0 || end < from+4 || end > len(data) {
		return nil, fmt.Errorf("its header says that the kernel is at byte %d, %d long, and the file has %d", from, end-from, len(data))
	}
	var want uint32
	if length+4 <= len(data) {
		want = word.Uint32(data[length:])
	}
	return decompress(ctx, data[from:end], want)
}

// decompress unpacks what the kernel's build has packed, by its magic number
// (scripts/extract-vmlinux in Linux). What follows it may be its length alone: an error
// after want bytes is no fault of the kernel's.
func decompress(ctx context.Context, packed []byte, want uint32) ([]byte, error) {
	var r io.Reader
	in := bytes.NewReader(packed)
	switch {
	case bytes.HasPrefix(packed, []byte("\x7fELF")):
		return packed, nil
	case bytes.HasPrefix(packed, gzipMagic):
		return gunzip(packed)
	case bytes.HasPrefix(packed, []byte{0x02, 0x21, 0x4c, 0x18}): // legacy LZ4
		r = lz4.NewReader(in)
	case bytes.HasPrefix(packed, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in, zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = z
	case bytes.HasPrefix(packed, []byte("BZh")):
		r = bzip2.NewReader(in)
	case bytes.HasPrefix(packed, []byte("\xfd7zXZ\x00")):
		plain, err := unpackWith(ctx, packed, "xz", "-dc", "--single-stream")
		return whole(plain, err, want)
	default:
		return nil, fmt.Errorf("packed in a way that is not known here (it begins with %x)", packed[:min(6, len(packed))])
	}
	plain, err := readAll(r)
	return whole(plain, err, want)
}

// zstdWindow is the largest that a kernel's build asks for (zstd --ultra -22), in bytes.
const zstdWindow = 128 << 20

// whole takes an unpacked kernel that has the length that it should have.
func whole(plain []byte, err error, want uint32) ([]byte, error) {
	if want > 0 && len(plain) == int(want) {
		return plain, nil
	}
	if err == nil {
		err = errors.New("it is cut off, or damaged")
	}
	return nil, fmt.Errorf("%d bytes come out of what is packed, and its build says %d: %w", len(plain), want, err)
}

// unpackWith unpacks with a program.
func unpackWith(ctx context.Context, packed []byte, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Stdin = bytes.NewReader(packed)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("unpack with %s: %w", name, err)
	}
	plain, err := readAll(out)
	if err != nil {
		cancel() // it would write more
	}
	if werr := c.Wait(); err == nil && werr != nil {
		err = werr
	}
	if err != nil {
		return plain, fmt.Errorf("unpack with %s: %w", name, err)
	}
	return plain, nil
}

// keep writes a file of the cache: whole, or not at all.
func keep(file string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), "tmp-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // after the rename there is nothing to remove
	if err := errors.Join(write(tmp), tmp.Chmod(0o644), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}
