package kerneltools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/kerneltools/hostimage"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/vmm"
)

// trimImageFlags are the options of tare trim image.
type trimImageFlags struct {
	options hostimage.Options
	keys    []string
	size    vmm.MemoryFlag
	weigh   int
	json    bool
}

func (v verbs) trimImageCommand() *cobra.Command {
	f := trimImageFlags{size: vmm.MemoryFlag{Bytes: 4 << 30}}
	c := &cobra.Command{
		Use:   "image -o DISK (--ssh-key FILE | --console | --seed)",
		Short: "Make a disk with a trimmed container host, to take away",
		Long: `image makes a disk that boots by itself: Debian's smallest system with systemd, the
trimmed kernel, Docker (or containerd, or Podman), addresses by DHCP, and SSH. The
format is the file's ending: qcow2, raw (img), vmdk (VMware) or vdi (VirtualBox).
Each machine makes its own machine-id and SSH host key at its first boot, and its
root grows to the disk's size. The kernel keeps the guards that the need hardening
names, reacts to the power button, and is put beside the disk as well.

Somebody must be able to log in: by public keys (--ssh-key, for root), on the serial
console without a password (--console), or by a key that each start passes in
(--seed), as systemd's credential ssh.authorized_keys.root: from SMBIOS (QEMU,
libvirt), or by systemd.set_credential= on the kernel's command line.

With --weigh N the same packages are made into a stock system as well, with Debian's
own kernel, initramfs and units. Both are booted N times in turns; sizes, the time to
SSH and QEMU's peak memory are printed next to each other. The stock disk is not kept.

Beside DISK lie its kernels (NAME.vmlinuz, NAME.vmlinux), and NAME.qemu.sh,
NAME.libvirt.xml, NAME.stratovirt.sh, NAME.firecracker.json and
NAME.cloud-hypervisor.sh, which start it. As root, x86-64 only; some ten minutes the
first time. scripts/setup.sh trim installs what it takes. A file that is there is
replaced only with --force; a build that ends early leaves nothing.`,
		Example: `  tare trim image -o host.qcow2 --ssh-key ~/.ssh/id_ed25519.pub
  tare trim image -o host.img --engine podman --console --size 10GiB
  tare trim image -o host.vmdk --ssh-key team.pub --needs ipv6
  tare trim image -o golden.qcow2 --seed
  tare trim image -o host.qcow2 --ssh-key me.pub --weigh 6
  tare trim image run host.qcow2 --port 2222`,
		RunE: func(c *cobra.Command, _ []string) error { return v.trimImage(c, &f) },
	}
	flags := c.Flags()
	flags.StringVarP(&f.options.Output, "output", "o", "", "the disk's file")
	flags.StringVar(&f.options.Format, "format", "", "of the disk: "+strings.Join(hostimage.Formats, ", ")+" (default by the file's ending)")
	flags.StringVar(&f.options.Engine, "engine", "docker", strings.Join(hostimage.Engines(), ", "))
	flags.StringArrayVar(&f.keys, "ssh-key", nil, "file with public keys that may log in as root; may be repeated")
	flags.BoolVar(&f.options.Console, "console", false, "whoever has the serial console, or the screen of a vmdk or vdi, is root, without a password")
	flags.BoolVar(&f.options.Seed, "seed", false, "no login is built in: each start passes a key in")
	flags.StringVar(&f.options.Hostname, "hostname", "tare", "of the machine")
	flags.StringSliceVar(&f.options.Needs, "needs", nil, "more needs of the kernel, by id or by a path with a slash")
	flags.Var(&f.size, "size", "of the disk")
	flags.BoolVar(&f.options.Force, "force", false, "replace files that are there")
	flags.IntVar(&f.weigh, "weigh", 0, "boots of the image and of the stock system, in turns, to compare both; 6 for an interval (default none)")
	flags.BoolVar(&f.json, "json", false, "print as JSON")
	c.AddCommand(v.trimImageRunCommand())
	return c
}

func (v verbs) trimImage(c *cobra.Command, f *trimImageFlags) error {
	err := notStandardOutput(f.options.Output, "a disk is not written from its beginning to its end, and has files beside it")
	if err != nil {
		return err
	}
	if f.options.Keys, err = keyFiles(f.keys); err == nil {
		f.options.Size = f.size.Bytes
		err = f.options.Settle()
	}
	if err == nil {
		err = f.weighable()
	}
	if err != nil {
		return &lab.InputError{Err: err}
	}
	laboratory, err := lab.Open(c.Context(), v.Config(c))
	if err != nil {
		return err
	}
	shown, err := v.makeImage(c, laboratory, f)
	if err := errors.Join(err, laboratory.Close()); err != nil {
		return notBuilt(err)
	}
	if f.json {
		return v.JSON(shown)
	}
	v.printImage(shown.Built)
	if shown.Weighed != nil {
		v.printWeighed(*shown.Weighed)
	}
	return nil
}

// shownImage is what --json prints.
type shownImage struct {
	hostimage.Built
	Weighed *hostimage.Weighed `json:"weighed,omitempty"`
}

// weighable refuses what cannot be booted here.
func (f *trimImageFlags) weighable() error {
	switch {
	case f.weigh < 0:
		return fmt.Errorf("--weigh %d: at least 1", f.weigh)
	case f.weigh > 0 && f.options.Format != "qcow2" && f.options.Format != "raw":
		return fmt.Errorf("--weigh: disks of %s are not booted here; make a qcow2", f.options.Format)
	}
	return nil
}

// makeImage builds, and weighs where that is asked for: an image stays whatever comes
// of weighing it.
func (v verbs) makeImage(c *cobra.Command, laboratory *lab.Lab, f *trimImageFlags) (shown shownImage, err error) {
	say := v.Config(c).Say
	if shown.Built, err = hostimage.Build(c.Context(), laboratory.Place(), f.options, say); err != nil || f.weigh == 0 {
		return shown, err
	}
	start := hostimage.Start{CPUs: min(2, runtime.NumCPU()), Memory: 1 << 30}
	if start.Program, start.Accel, err = emulator(c.Context(), laboratory); err != nil {
		return shown, err
	}
	weighed, err := hostimage.Weigh(c.Context(), laboratory.Place(), f.options, shown.Built, f.weigh, start, say)
	shown.Weighed = &weighed
	return shown, err
}

// printWeighed is the image next to stock.
func (v verbs) printWeighed(w hostimage.Weighed) {
	t := v.Table("", "this image", "stock", "times less")
	size := func(what string, image, stock int64) {
		less := "-"
		if image > 0 {
			less = fmt.Sprintf("%.1f", float64(stock)/float64(image))
		}
		t.AppendRow(table.Row{what, fmt.Sprintf("%.1f", megabytes(image)), fmt.Sprintf("%.1f", megabytes(stock)), less})
	}
	size("kernel, MB", w.Image.Kernel, w.Stock.Kernel)
	size("initramfs, MB", w.Image.Initrd, w.Stock.Initrd)
	size("disk's file, MB", w.Image.Disk, w.Stock.Disk)
	size("files in it, MB", w.Image.Used, w.Stock.Used)
	t.AppendRow(table.Row{"to SSH, s", spread(w.Image.Boot, 1), spread(w.Stock.Boot, 1), spread(w.Image.LessBoot, 1)})
	t.AppendRow(table.Row{"QEMU's peak memory, MB", spread(w.Image.Memory, 1e6), spread(w.Stock.Memory, 1e6), spread(w.Image.LessMemory, 1)})
	fmt.Fprintln(v.Stdout())
	t.Render()
	note := "95 % intervals"
	if w.Boots < 6 {
		note = "the lowest and highest; 6 boots give an interval"
	}
	fmt.Fprintf(v.Stdout(), "%d boots of each in turns, medians with %s. Each is a first boot, by the disk's loader, with at most 2 CPUs and 1 GiB.\n", w.Boots, note)
}

// spread is an estimate in a unit, with its interval.
func spread(e stats.Estimate, unit float64) string {
	return fmt.Sprintf("%.1f [%.1f, %.1f]", e.Value/unit, e.Interval.Low/unit, e.Interval.High/unit)
}

// keyFiles are the texts of files with public keys.
func keyFiles(names []string) ([]string, error) {
	var texts []string
	for _, name := range names {
		text, err := keyFile(name)
		if err != nil {
			return nil, fmt.Errorf("--ssh-key: %w", err)
		}
		texts = append(texts, text)
	}
	return texts, nil
}

func keyFile(name string) (string, error) {
	file, err := sys.OpenGiven(name, limit.SSHKeys)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(limit.SSHKeys.Reader(file))
	return string(text), err
}

func (v verbs) printImage(b hostimage.Built) {
	fmt.Fprintf(v.Stdout(), "%s: a container host with %s, Linux %s\n", b.Disk, b.Engine, b.Kernel)
	fmt.Fprintf(v.Stdout(), "disk (%s) %.1f MB, %.1f MB of files in it; kernel %.2f MB packed, %.2f MB as an ELF image\n",
		b.Format, megabytes(b.Bytes["disk"]), megabytes(b.Bytes["used"]), megabytes(b.Bytes["kernel"]), megabytes(b.Bytes["elf"]))
	fmt.Fprintln(v.Stdout(), "\nBeside it:")
	for _, file := range b.Files[1:] {
		fmt.Fprintln(v.Stdout(), " ", file)
	}
	fmt.Fprintf(v.Stdout(), "\nto start it: tare trim image run %s\n", b.Disk)
}

// trimImageRunFlags are the options of tare trim image run.
type trimImageRunFlags struct {
	port, cpus int
	memory     vmm.MemoryFlag
	keys       []string
	snapshot   bool
	quiet      bool
}

func (v verbs) trimImageRunCommand() *cobra.Command {
	f := trimImageRunFlags{memory: vmm.MemoryFlag{Bytes: 1 << 30}}
	c := &cobra.Command{
		Use:   "run DISK",
		Short: "Start such a disk on QEMU, with its SSH on a port of this machine",
		Long: `run boots a disk of tare trim image (qcow2 or raw) on QEMU with KVM, or emulated
where KVM runs no guest here, and forwards a port of 127.0.0.1 to its SSH. The serial
console goes to standard output. A line on standard error says when SSH answers, and
how to use it. Ctrl-C presses the power button; run ends when the machine is off.
What the guest writes stays on the disk, but with --snapshot. No root is needed, but
the right to /dev/kvm. A disk that names another file of this machine is refused.`,
		Example: `  tare trim image run host.qcow2
  tare trim image run host.qcow2 --port 2222 --memory 4GiB --cpus 4
  tare trim image run golden.qcow2 --ssh-key ~/.ssh/id_ed25519.pub --snapshot
  docker -H ssh://root@127.0.0.1:2222 run --rm hello-world`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return v.trimImageRun(c, args[0], &f) },
	}
	flags := c.Flags()
	flags.IntVar(&f.port, "port", 2222, "of 127.0.0.1, for the machine's SSH; 0 takes a free one")
	flags.IntVar(&f.cpus, "cpus", min(2, runtime.NumCPU()), "of the machine")
	flags.Var(&f.memory, "memory", "of the machine")
	flags.StringArrayVar(&f.keys, "ssh-key", nil, "file with public keys, for a disk made with --seed; may be repeated")
	flags.BoolVar(&f.snapshot, "snapshot", false, "what the machine writes is lost when it ends")
	flags.BoolVar(&f.quiet, "no-console", false, "leave the serial console out of standard output")
	return c
}

func (v verbs) trimImageRun(c *cobra.Command, disk string, f *trimImageRunFlags) error {
	start, err := f.start(disk)
	if err != nil {
		return &lab.InputError{Err: err}
	}
	if !f.quiet {
		start.Console = v.Stdout()
	}
	start.Ready = v.tellReady
	laboratory, err := lab.Open(c.Context(), v.Config(c))
	if err != nil {
		return err
	}
	start.Program, start.Accel, err = emulator(c.Context(), laboratory)
	if err == nil {
		err = hostimage.Run(c.Context(), laboratory.Place(), start)
	}
	return errors.Join(err, laboratory.Close())
}

func (v verbs) tellReady(up hostimage.Up) {
	fmt.Fprintf(v.Stderr(), "\nSSH answers, %.1f s after the start:\n  ssh -p %d root@127.0.0.1\n  docker -H ssh://root@127.0.0.1:%d ps     # with Docker in it\nCtrl-C switches the machine off.\n",
		up.Took.Seconds(), up.Port, up.Port)
}

// start checks what the flags say.
func (f *trimImageRunFlags) start(disk string) (s hostimage.Start, err error) {
	switch {
	case f.port < 0 || f.port > 65535:
		return s, fmt.Errorf("--port %d: 1 to 65535, or 0", f.port)
	case f.cpus < 1:
		return s, fmt.Errorf("--cpus %d: at least 1", f.cpus)
	}
	s = hostimage.Start{CPUs: f.cpus, Memory: f.memory.Bytes, Port: f.port, Snapshot: f.snapshot}
	if s.Keys, err = keyFiles(f.keys); err != nil {
		return s, err
	}
	s.Disk, err = fileOf("DISK", disk)
	return s, err
}

// emulator is the program of qemu/q35, and what runs its guests here.
func emulator(ctx context.Context, laboratory *lab.Lab) (string, vmm.Accel, error) {
	all, err := laboratory.Drivers(ctx, vmm.QEMUQ35)
	if err != nil {
		return "", "", err
	}
	found := laboratory.Check(ctx, all, false)[0]
	if found.Facts.Path == "" {
		return "", "", found.Err
	}
	// The disk brings its own kernel: what the check lacks besides QEMU is not missed here,
	// only KVM is then not proven.
	return found.Facts.Path, cmp.Or(vmm.Accel(found.Facts.Notes[driver.NoteAccel]), vmm.TCG), nil
}
