package vmm

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// elfKernel is an ELF file with one note, as a vmlinux has.
func elfKernel(machine uint16, note string) []byte {
	word := binary.LittleEndian
	data := []byte("\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9))
	data = word.AppendUint16(data, 2)
	data = word.AppendUint16(data, machine)
	data = word.AppendUint32(data, 1)
	for _, v := range []uint64{0, 64, 0} {
		data = word.AppendUint64(data, v)
	}
	data = word.AppendUint32(data, 0)
	for _, v := range []uint16{64, 56, 1, 64, 0, 0} {
		data = word.AppendUint16(data, v)
	}
	data = word.AppendUint32(data, 4) // PT_NOTE
	data = word.AppendUint32(data, 4)
	for _, v := range []uint64{120, 0, 0, uint64(len(note)), uint64(len(note)), 4} {
		data = word.AppendUint64(data, v)
	}
	data = append(data, note...)
	// Large enough for a piece of it to be taken for a kernel.
	data = append(data, make([]byte, 2<<20)...)
	return append(data, "Linux version 6.1.2-test (someone)"...)
}

const pvhNote = "\x04\x00\x00\x00\x04\x00\x00\x00\x12\x00\x00\x00Xen\x00\x00\x00\x00\x01"

// bzImage packs a kernel as x86's build does, its length behind it; gzip ends with it.
func bzImage(t *testing.T, how string, plain []byte) []byte {
	t.Helper()
	data := make([]byte, 4096)
	word := binary.LittleEndian
	packed := packedBy(t, how, plain)
	if how != "gzip" {
		packed = word.AppendUint32(packed, uint32(len(plain)))
	}
	data[setupSectors] = 7
	copy(data[headerMagic:], "HdrS")
	word.PutUint16(data[kernelVersion:], 0x300)
	copy(data[0x500:], "6.1.2-test (someone@somewhere) #1\x00")
	word.PutUint32(data[payloadOffset:], 16)
	word.PutUint32(data[payloadLength:], uint32(len(packed)))
	return append(append(data, make([]byte, 16)...), packed...)
}

func packedBy(t *testing.T, how string, plain []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var err error
	switch how {
	case "gzip":
		w := gzip.NewWriter(&out)
		_, err = w.Write(plain)
		if cerr := w.Close(); err == nil {
			err = cerr
		}
	case "zstd":
		w, zerr := zstd.NewWriter(&out)
		if zerr != nil {
			t.Fatal(zerr)
		}
		_, err = w.Write(plain)
		if cerr := w.Close(); err == nil {
			err = cerr
		}
	case "lz4":
		w := lz4.NewWriter(&out)
		if err := w.Apply(lz4.LegacyOption(true)); err != nil {
			t.Fatal(err)
		}
		_, err = w.Write(plain)
		if cerr := w.Close(); err == nil {
			err = cerr
		}
	case "xz":
		xz := exec.CommandContext(t.Context(), "xz", "-c")
		xz.Stdin, xz.Stdout = bytes.NewReader(plain), &out
		err = xz.Run()
	default:
		return bytes.Clone(plain)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func write(t *testing.T, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kernel")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestUnpackBzImage(t *testing.T) {
	plain := elfKernel(62, pvhNote)
	for _, how := range []string{"gzip", "zstd", "lz4", "xz", "none"} {
		t.Run(how, func(t *testing.T) {
			if _, err := exec.LookPath("xz"); how == "xz" && err != nil {
				t.Skip("xz is not installed")
			}
			k, err := Inspect(write(t, bzImage(t, how, plain)))
			if err != nil || k.Format != BzImage || k.Arch != "amd64" || k.Version != "6.1.2-test" {
				t.Fatalf("%+v, %v", k, err)
			}
			dir := t.TempDir()
			inner, err := k.unpacked(t.Context(), dir)
			if err != nil || inner.Format != PVH || inner.Version != "6.1.2-test" {
				t.Fatalf("%+v, %v", inner, err)
			}
			if data, err := os.ReadFile(inner.Path); err != nil || !bytes.HasPrefix(data, plain) {
				t.Errorf("the kernel came out as %d bytes, want %d (%v)", len(data), len(plain), err)
			}
			before, err := os.Stat(inner.Path)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := k.unpacked(t.Context(), dir); err != nil || again.Path != inner.Path {
				t.Errorf("a second time: %+v, %v", again, err)
			}
			if after, err := os.Stat(inner.Path); err != nil || !after.ModTime().Equal(before.ModTime()) {
				t.Errorf("it was unpacked again (%v)", err)
			}
		})
	}
}

func TestInspect(t *testing.T) {
	pe := func(machine uint16, magic string) []byte {
		data := make([]byte, 8192)
		copy(data, "MZ")
		copy(data[4:], magic)
		binary.LittleEndian.PutUint32(data[0x3c:], 0x80)
		copy(data[0x80:], "PE\x00\x00")
		binary.LittleEndian.PutUint16(data[0x84:], machine)
		return data
	}
	program := elfKernel(62, pvhNote)
	program[binary.LittleEndian.Uint64(program[0x20:])] = byte(elf.PT_INTERP) // the type of the first segment
	arm := make([]byte, 8192)
	copy(arm[56:], "ARM\x64")
	for name, c := range map[string]struct {
		data   []byte
		format Format
		arch   string
		err    string
	}{
		"PVH":               {elfKernel(62, pvhNote), PVH, "amd64", ""},
		"vmlinux":           {elfKernel(62, "\x04\x00\x00\x00\x04\x00\x00\x00\x01\x00\x00\x00GNU\x00\x00\x00\x00\x01"), Vmlinux, "amd64", ""},
		"arm64 vmlinux":     {elfKernel(183, pvhNote[:12]), Vmlinux, "arm64", ""},
		"s390 vmlinux":      {elfKernel(22, pvhNote), "", "", "EM_S390"},
		"arm64 Image":       {arm, Image, "arm64", ""},
		"LoongArch Image":   {pe(0x6264, ""), Image, "loong64", ""},
		"LoongArch zboot":   {pe(0x6264, "zimg"), ZBoot, "loong64", ""},
		"EFI of something":  {pe(0x1234, ""), "", "", "machine type 0x1234"},
		"Linux program":     {program, "", "", "a program, and no kernel"},
		"DOS program":       {append([]byte("MZ"), make([]byte, 8192)...), "", "", "neither a kernel nor an EFI program"},
		"no gzip":           {append([]byte{0x1f, 0x8b}, make([]byte, 8192)...), "", "", "it is a gzip file: gzip: invalid header"},
		"arm64 Image.gz":    {packedBy(t, "gzip", arm), Gzip, "arm64", ""},
		"gzip of text":      {packedBy(t, "gzip", []byte(strings.Repeat("#!/bin/sh\n", 500))), "", "", `what is in it: it is no kernel that tare knows: it begins with "#!/bin/s"`},
		"gzip of gzip":      {packedBy(t, "gzip", packedBy(t, "gzip", arm)), "", "", "a gzip file with another in it"},
		"gzips of text":     {packedBy(t, "gzip", packedBy(t, "gzip", []byte(strings.Repeat("#!/bin/sh\n", 500)))), "", "", "a gzip file with another in it"},
		"cut off gzip":      {packedBy(t, "gzip", elfKernel(62, ""))[:1500], "", "", "it is a gzip file: unexpected EOF"},
		"text":              {[]byte(strings.Repeat("#!/bin/sh\n", 500)), "", "", `begins with "#!/bin/s"`},
		"empty":             {nil, "", "", "it has 0 bytes"},
		"cut off ELF":       {append([]byte("\x7fELF\x02\x01\x01"), bytes.Repeat([]byte{0xff}, 8192)...), "", "", "kernel"},
		"bzImage that lies": {bzImage(t, "none", nil)[:4096], BzImage, "amd64", ""},
	} {
		t.Run(name, func(t *testing.T) {
			k, err := Inspect(write(t, c.data))
			expect(t, "inspect", err, c.err)
			if err == nil && (k.Format != c.format || k.Arch != c.arch) {
				t.Errorf("got %+v", k)
			}
			if name == "bzImage that lies" {
				_, err := k.unpacked(t.Context(), t.TempDir())
				expect(t, "unpack", err, "its header says")
			}
		})
	}
}

// TestKernelForVMM sees each VMM get what it loads, and the reason where it
// cannot.
func TestKernelForVMM(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the kernels of this test are x86's")
	}
	stock, err := Inspect(write(t, bzImage(t, "lz4", elfKernel(62, pvhNote))))
	if err != nil {
		t.Fatal(err)
	}
	old, err := Inspect(write(t, bzImage(t, "gzip", elfKernel(62, ""))))
	if err != nil {
		t.Fatal(err)
	}
	bare, err := Inspect(write(t, elfKernel(62, "")))
	if err != nil {
		t.Fatal(err)
	}
	once, err := Inspect(write(t, packedBy(t, "gzip", bzImage(t, "zstd", elfKernel(62, pvhNote)))))
	if err != nil || once.Version != "6.1.2-test" {
		t.Fatalf("%+v, %v", once, err)
	}
	for _, c := range []struct {
		vmm  string
		k    Kernel
		want Format
		err  string
	}{
		{"qemu/microvm", stock, PVH, ""}, {"qemu/q35", old, BzImage, ""}, {"stratovirt/microvm", stock, BzImage, ""},
		{"firecracker", stock, PVH, ""}, {"firecracker", old, Vmlinux, ""}, {"cloud-hypervisor", old, BzImage, ""},
		{"qemu/microvm", once, PVH, ""}, {"stratovirt/microvm", once, BzImage, ""},
		{"stratovirt/microvm", bare, "", "loads [bzImage]"}, {"qemu/microvm", bare, "", "loads [pvh bzImage]"},
	} {
		v, ok := ByName(c.vmm)
		if !ok {
			t.Fatalf("no %s", c.vmm)
		}
		got, err := v.Kernel(t.Context(), c.k, t.TempDir())
		expect(t, c.vmm, err, c.err)
		if err == nil && got.Format != c.want {
			t.Errorf("%s gets a %s, want %s", c.vmm, got.Format, c.want)
		}
	}
}

// TestDamagedKernels: a packed kernel that is cut off or damaged is refused by the length
// that its build has noted, and nothing is kept of it.
func TestDamagedKernels(t *testing.T) {
	plain := elfKernel(62, pvhNote)
	for i := range plain[4096:] {
		plain[4096+i] ^= byte(i * i >> 7) // what does not pack to nothing
	}
	for _, how := range []string{"gzip", "zstd", "lz4", "xz"} {
		if _, err := exec.LookPath("xz"); how == "xz" && err != nil {
			t.Log("xz is not installed")
			continue
		}
		cut, lies := bzImage(t, how, plain), bzImage(t, how, plain)
		clear(cut[len(cut)/2 : len(cut)-4])
		binary.LittleEndian.PutUint32(lies[len(lies)-4:], uint32(len(plain)+1))
		blank := bytes.Clone(cut)
		clear(blank[len(cut)/2:])
		for what, data := range map[string][]byte{"cut off": cut, "cut off with its length": blank, "of another length": lies} {
			k, err := Inspect(write(t, data))
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			inner, err := k.unpacked(t.Context(), dir)
			if err == nil {
				t.Errorf("%s, %s: it is taken for %+v", how, what, inner)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("%s, %s: left are %v, %v", how, what, left, err)
			}
		}
	}
}

// TestHostileKernels: files without an end, and those that unpack to more than any
// kernel, are refused before they fill the memory.
func TestHostileKernels(t *testing.T) {
	most := mostKernel
	mostKernel = 1 << 20
	t.Cleanup(func() { mostKernel = most })
	_, err := Inspect("/dev/zero")
	expect(t, "a device", err, "kernel /dev/zero: it is no regular file")
	_, err = Inspect(t.TempDir())
	expect(t, "a directory", err, "is no regular file")
	_, err = Inspect(write(t, make([]byte, mostKernel+1)))
	expect(t, "a large file", err, "it has more than 1 MiB, and is no kernel")
	_, err = Inspect(write(t, packedBy(t, "gzip", make([]byte, 2*mostKernel))))
	expect(t, "a large gzip file", err, "it has more than 1 MiB, and is no kernel")
	for _, how := range []string{"gzip", "zstd", "lz4", "xz"} {
		if _, err := exec.LookPath("xz"); how == "xz" && err != nil {
			t.Log("xz is not installed")
			continue
		}
		k, err := Inspect(write(t, bzImage(t, how, make([]byte, 2*mostKernel))))
		if err != nil {
			t.Fatal(err)
		}
		_, err = k.unpacked(t.Context(), t.TempDir())
		expect(t, how, err, "it has more than 1 MiB, and is no kernel")
	}
}

// TestStockKernelThatIsNone: a package whose kernel cannot be read is not the last that
// is tried.
func TestStockKernelThatIsNone(t *testing.T) {
	bin := t.TempDir()
	for name, script := range map[string]string{
		"apt-cache": `echo "  Depends: linux-image-1-test"`,
		"apt-get":   `: >linux-image-1-test_1_all.deb`,
		"dpkg":      `mkdir -p "$3/boot" && seq 2000 >"$3/boot/vmlinuz-1-test"`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	s, err := StockKernel(t.Context(), t.TempDir())
	if err == nil {
		if s.Package != "" {
			t.Errorf("got %+v", s)
		}
		return // this machine's own
	}
	var none *NoKernelError
	if !errors.As(err, &none) || strings.Count(err.Error(), "it is no kernel that tare knows") < len(stockPackages[runtime.GOARCH]) {
		t.Errorf("want each package's reason: %v", err)
	}
}
