package emulated

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A machine is one with an emulated CPU.
type machine struct {
	arch      string          // GOARCH
	emulator  string          // QEMU's program
	arguments []string        // of the machine, its CPU and firmware; $EMULATOR is the emulator's root
	append    string          // the kernel's command line
	cpu       string          // what tare must call its CPU
	truth     map[string]bool // what tare check must say, by fact
	measure   string          // the command that the guest measures by, unless -command says another
	kernel    string          // its file; "" for that of the machine's packages
	broken    string          // words on the console of a machine whose emulator has failed it
}

// errBroken is the end of a machine that its emulator has failed: nothing of what runs in
// it is to blame.
var errBroken = errors.New("the emulator has failed its machine")

// truths are what both kernels can do and cannot, by their configuration and
// their emulator: no PMU, no virtualization extension, pure cgroup v2.
func truths(differing map[string]bool) map[string]bool {
	all := map[string]bool{
		"cgroup controllers": true, "cgroups writable": true, "start inside a cgroup": true, "user namespaces": true,
		"overlayfs": true, "seccomp filters": true, "perf hardware counters": false, "perf software counters": true,
		"eBPF": true, "tracepoints": true, "pressure (PSI)": true, "KVM": false,
	}
	maps.Copy(all, differing)
	return all
}

// machines are those of the test; both measure the whole of the study's quick form
// on one CPU, where its environments are one, and each trial counts. The MIPS one has a single CPU: with two its
// clock runs backwards. The LoongArch kernel is an EFI program, and hangs for
// a while on a keyboard controller that the machine does not have; nothing in it
// tells an emulated CPU from a real one, so the command line does.
var machines = []machine{
	{
		arch: "mips64le", emulator: "qemu-system-mips64el",
		arguments: []string{"-M", "loongson3-virt", "-cpu", "Loongson-3A1000", "-smp", "1"},
		append:    "console=ttyS0 panic=-1 tare.emulated=qemu-system-mips64el",
		cpu:       "ICT Loongson-3",
		truth:     truths(map[string]bool{"namespaces": false, "BTF": false}), // MIPS has no time namespaces
		measure:   "tare run docker-on-loongson --quick",
		// This is the timer's. Seen once, on a busy host: the interrupt stays raised, and the
		// timer denies that it is its own, so that nobody lowers it.
		broken: "Disabling IRQ #23",
	},
	{
		arch: "loong64", emulator: "qemu-system-loongarch64",
		arguments: []string{"-M", "virt", "-cpu", "la464", "-smp", "2", "-bios", "$EMULATOR/usr/share/qemu-efi-loongarch64/QEMU_EFI.fd"},
		append:    "console=ttyS0 panic=-1 initcall_blacklist=i8042_init tare.emulated=qemu-system-loongarch64",
		cpu:       "Loongson-3A5000",
		truth:     truths(map[string]bool{"namespaces": true}), // whether it has BTF changes with its version
		measure:   "tare run docker-on-loongson --quick --cpuset first-1",
	},
}

// memory is that of a machine in MiB: engines take more.
func memory() int {
	if *docker {
		return 4096
	}
	return 2048
}

// command is the emulator's command line: the program of the unpacked package,
// run by the loader and with the libraries that came with it, which need not be
// this machine's.
func (m machine) command(ctx context.Context, root, kernel, initrd string, disks []string) (*exec.Cmd, error) {
	program := filepath.Join(root, "usr/bin", m.emulator)
	loader, err := interpreter(program)
	if err != nil {
		return nil, err
	}
	libraries, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu*"))
	if err != nil {
		return nil, err
	}
	arguments := []string{"--library-path", strings.Join(libraries, ":"), program, "-L", filepath.Join(root, "usr/share/qemu")}
	for _, a := range m.arguments {
		arguments = append(arguments, strings.ReplaceAll(a, "$EMULATOR", root))
	}
	for i, disk := range disks {
		id := fmt.Sprintf("disk%d", i)
		arguments = append(arguments, "-drive", "file="+disk+",format=raw,if=none,cache=unsafe,id="+id, "-device", "virtio-blk-pci,drive="+id)
	}
	arguments = append(arguments, "-m", strconv.Itoa(memory()), "-nodefaults", "-vga", "none", "-display", "none", "-no-reboot",
		"-serial", "stdio", "-kernel", kernel, "-initrd", initrd, "-append", m.append)
	c := exec.CommandContext(ctx, filepath.Join(root, loader), arguments...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.WaitDelay = 5 * time.Second
	return c, nil
}

// interpreter is the loader that a dynamic program asks for.
func interpreter(program string) (string, error) {
	f, err := elf.Open(program)
	if err != nil {
		return "", fmt.Errorf("the emulator: %w", err)
	}
	defer f.Close()
	section := f.Section(".interp")
	if section == nil {
		return "", fmt.Errorf("the emulator %s names no loader", program)
	}
	name, err := section.Data()
	return string(bytes.TrimRight(name, "\x00")), err
}

// stamped copies lines, each with the seconds since start before it.
type stamped struct {
	to    io.Writer
	start time.Time
	part  []byte // of a line that has not ended
}

func (s *stamped) Write(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		s.part = append(s.part, line...)
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		if _, err := fmt.Fprintf(s.to, "%6.1f %s", time.Since(s.start).Seconds(), s.part); err != nil {
			return 0, err
		}
		s.part = s.part[:0]
	}
	return len(b), nil
}

// watched calls end once words came by.
type watched struct {
	words string
	end   func()
	last  []byte
}

func (w *watched) Write(b []byte) (int, error) {
	w.last = append(w.last, b...)
	if w.words != "" && bytes.Contains(w.last, []byte(w.words)) {
		w.end()
	}
	w.last = w.last[max(0, len(w.last)-len(w.words)):]
	return len(b), nil
}

// run boots the machine, copies its console to log and unpacks the results that
// the guest prints there into dir. It ends when the guest has powered off, or with
// errBroken.
func (m machine) run(ctx context.Context, root, kernel, initrd string, disks []string, dir string, log io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c, err := m.command(ctx, root, kernel, initrd, disks)
	if err != nil {
		return err
	}
	var errs, console bytes.Buffer
	c.Stdout, c.Stderr = io.MultiWriter(&console, &stamped{to: log, start: time.Now()}, &watched{words: m.broken, end: func() { cancel(errBroken) }}), &errs
	err = c.Run()
	if errors.Is(context.Cause(ctx), errBroken) {
		return fmt.Errorf("%s: %w; its console ends:\n%s", m.emulator, errBroken, tail(console.Bytes(), 2000))
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: the guest did not power off in time; its console ends:\n%s%s", m.emulator, tail(console.Bytes(), 2000), &errs)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", m.emulator, err, &errs)
	}
	packed, err := results(&console)
	if err != nil {
		return fmt.Errorf("%w; the console ends:\n%s", err, tail(console.Bytes(), 2000))
	}
	return unpack(packed, dir)
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

// results are what the guest's /init prints between two marks, base64, after
// checking the digest that the first mark names.
func results(console io.Reader) ([]byte, error) {
	var text strings.Builder
	var digest string
	lines := bufio.NewScanner(console)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		switch {
		case strings.HasPrefix(line, "guest: results begin "):
			digest = strings.TrimPrefix(line, "guest: results begin ")
		case line == "guest: results end":
			packed, err := base64.StdEncoding.DecodeString(text.String())
			if err != nil {
				return nil, fmt.Errorf("the results on the console are damaged: %w", err)
			}
			if sum := sha256.Sum256(packed); hex.EncodeToString(sum[:]) != digest {
				return nil, fmt.Errorf("the results on the console are damaged: digest %x, and the guest sent %s", sum, digest)
			}
			return packed, nil
		case digest != "":
			text.WriteString(line)
		}
	}
	return nil, errors.Join(errors.New("no results on the console"), lines.Err())
}

// unpack writes a gzipped tar of plain files and directories into dir.
func unpack(packed []byte, dir string) error {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("results: %w", err)
	}
	to, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer to.Close()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("results: %w", err)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = to.MkdirAll(filepath.Clean(h.Name), 0o755)
		case tar.TypeReg:
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = to.WriteFile(filepath.Clean(h.Name), data, 0o644)
			}
		}
		if err != nil {
			return fmt.Errorf("results: %s: %w", h.Name, err)
		}
	}
}
