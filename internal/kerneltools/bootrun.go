package kerneltools

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tarelab/tare/internal/kerneltools/boots"
	"github.com/tarelab/tare/internal/kerneltools/bootstudy"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/vmm"
)

// bootRunFlags are the options of tare boot run.
type bootRunFlags struct {
	rootfs, more, until  string
	on, kernels, initrds []string
	memory               vmm.MemoryFlag
	boots, cpus          int
	timeout              time.Duration
	network, json        bool
}

func (v verbs) bootRunCommand() *cobra.Command {
	f := bootRunFlags{memory: vmm.MemoryFlag{Bytes: 1 << 30}}
	c := &cobra.Command{
		Use:   "run [--kernel FILE [--initrd FILE]] [--rootfs ROOT]",
		Short: "Boot a machine of your own several times, and say when its milestones came",
		Long: `run boots kernels in virtual machines, each so many times, in blocks of random
order, and stamps the lines of their serial consoles on the host's clock: the first
byte, the kernel's banner, the initramfs freed, the kernel up, the first program,
systemd on the real root, sysinit.target, docker0, docker.service. The machine is
ended at the line that --until names, or ends itself. Several machines (--on) and
kernels are compared with the first; --initrd goes with the kernel of the same place,
"none" is none. Without --kernel the root is booted by the kernel of tare's guests and an
initramfs with its modules, until systemd reports that all is started, with systemd's own
times.

ROOT is a directory, an OCI image (a layout, or a tar of one), or a raw or qcow2 disk;
of a disk's partitions the largest with ext4, xfs or btrfs is the root. It is /dev/vda, or
that partition of it. What a boot writes to it is lost: QEMU keeps it apart, and where one
of the machines has no such copies (StratoVirt, Firecracker, Cloud Hypervisor) each boot of
each machine has a copy of the disk, removed with it. With --network each machine has a
link to a bridge of its own, where DHCP gives it an address; without, none.

The boots are kept as a run, also where one fails or Ctrl-C comes: its page draws
them, and each one's console is in its directory, for tare boot profile.`,
		Example: `  tare boot run --kernel /boot/vmlinuz-6.1.0-56-cloud-amd64 --initrd /boot/initrd.img-6.1.0-56-cloud-amd64 --rootfs disk.ext4
  tare boot run --kernel stock --initrd initrd.img --kernel trimmed/bzImage --initrd none --rootfs disk.ext4 --boots 8
  tare boot run --rootfs ./debian --on qemu/microvm,qemu/q35,stratovirt/microvm --boots 10
  tare boot run --kernel vmlinux --on qemu/microvm --until 'Run /init' --boots 20
  tare boot run --kernel bzImage --rootfs disk.ext4 --cpus 1 --append 'initcall_debug ignore_loglevel' --boots 1`,
		Args: cobra.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error { return v.bootRun(c, &f) },
	}
	flags := c.Flags()
	flags.StringArrayVar(&f.kernels, "kernel", nil, "kernel: a bzImage or an ELF image; several are compared with the first")
	flags.StringArrayVar(&f.initrds, "initrd", nil, "initramfs of the kernel of the same place; none for none")
	flags.StringVar(&f.rootfs, "rootfs", "", "root file system: a directory, an OCI image, a raw or qcow2 disk")
	flags.StringSliceVar(&f.on, "on", []string{"qemu/q35"}, "virtual machines; several are compared with the first")
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "vm" { // its name once
			name = "on"
		}
		return pflag.NormalizedName(name)
	})
	flags.StringVar(&f.more, "append", "", "kernel parameters beside the console's; with --kernel, --rootfs and without a root= among them, root=/dev/vda rw goes before")
	flags.StringVar(&f.until, "until", untilLogin, "regular expression of the console's line that ends a boot")
	flags.Var(&f.memory, "memory", "of the machine")
	flags.IntVar(&f.cpus, "cpus", min(2, runtime.NumCPU()), "of the machine")
	flags.IntVar(&f.boots, "boots", 6, "of each kernel; an interval takes 6")
	flags.DurationVar(&f.timeout, "timeout", 3*time.Minute, "of one boot")
	flags.BoolVar(&f.network, "network", false, "give each machine a link to a bridge of its own, with an address by DHCP and no way out; as root")
	flags.BoolVar(&f.json, "json", false, "print as JSON")
	return c
}

func (v verbs) bootRun(c *cobra.Command, f *bootRunFlags) error {
	o, err := f.options()
	if err != nil {
		return &lab.InputError{Err: err}
	}
	laboratory, err := lab.Open(c.Context(), v.Config(c))
	if err != nil {
		return err
	}
	run, err := boots.Run(c.Context(), laboratory, o, v.tellBoot)
	err = errors.Join(err, laboratory.Close())
	if run == nil || len(run.Done()) == 0 {
		return err
	}
	return errors.Join(err, v.showBoots(run, f.json))
}

// tellBoot says how the boots get on.
func (v verbs) tellBoot(e lab.Event) {
	boot := fmt.Sprintf("boot %d of %d: %s", e.Trial.Block+1, e.Blocks, e.Cell.Target)
	switch {
	case e.Record == nil:
		fmt.Fprintln(v.Stderr(), boot)
	case e.Record.Failure != nil:
		fmt.Fprintf(v.Stderr(), "%s failed: %s\n", boot, e.Record.Failure.Message)
	}
}

// showBoots prints what the boots of a run took and writes its page. Its error is also
// that of boots that failed.
func (v verbs) showBoots(run *store.Run, asJSON bool) error {
	in, err := v.Report(run)
	if err != nil {
		return err
	}
	numbers, _, err := lab.Report(run)
	if err != nil {
		return err
	}
	found, unread := bootstudy.Of(run, numbers, in.Claims.Tables)
	if unread != nil { // the other consoles are described
		fmt.Fprintln(v.Stderr(), "!", unread)
	}
	if asJSON {
		err = v.JSON(found)
	} else {
		v.printBoots(found)
	}
	page := filepath.Join(run.Dir(), "report.html")
	if err := errors.Join(err, lab.WriteReport(page, func(w io.Writer) error { return report.HTML(w, in) })); err != nil {
		return err
	}
	fmt.Fprintf(v.Stderr(), "\nreport: %s\nconsoles: %s, for tare boot profile\n", page, filepath.Join(run.Dir(), "logs", "*.log.gz"))
	return lab.Failures(in.Claims)
}

// untilLogin ends a boot where a user could log in, and untilStarted where systemd reports
// that nothing is left to be started, in the kernel's log.
const (
	untilLogin   = `login: |Reached target .*(multi-user\.target|Multi-User)`
	untilStarted = `Startup finished in `
)

// options checks what the flags say.
func (f *bootRunFlags) options() (boots.Options, error) {
	o := boots.Options{On: f.on, Rootfs: f.rootfs, Append: f.more, Memory: f.memory.Bytes, CPUs: f.cpus, Boots: f.boots, Timeout: f.timeout, Network: f.network}
	var err error
	switch {
	case len(f.kernels) == 0 && f.rootfs == "":
		return o, errors.New("--kernel: name at least one kernel, or a --rootfs for the kernel of tare's guests")
	case len(f.on) == 0:
		return o, errors.New("--on names no virtual machine")
	case len(f.on) != len(slices.Compact(slices.Sorted(slices.Values(f.on)))):
		return o, fmt.Errorf("--on %s names one twice", strings.Join(f.on, ","))
	case len(f.initrds) > len(f.kernels):
		return o, fmt.Errorf("--initrd: %d of them for %d kernels", len(f.initrds), len(f.kernels))
	case f.cpus < 1:
		return o, fmt.Errorf("--cpus %d: at least 1", f.cpus)
	case f.boots < 1:
		return o, fmt.Errorf("--boots %d: at least 1", f.boots)
	case f.network && os.Geteuid() != 0:
		return o, errors.New("--network takes root: a tap device and a bridge are made for each boot")
	case f.timeout <= 0:
		return o, fmt.Errorf("--timeout %v: must be positive", f.timeout)
	}
	until := f.until
	if until == untilLogin && len(f.kernels) == 0 {
		until = untilStarted
	}
	if o.Until, err = regexp.Compile(until); err != nil {
		return o, fmt.Errorf("--until: %w", err)
	}
	if f.rootfs != "" {
		if o.Rootfs, err = filepath.Abs(f.rootfs); err != nil {
			return o, fmt.Errorf("--rootfs: %w", err)
		}
	}
	names := shortNames(f.kernels)
	for i, kernel := range f.kernels {
		k := boots.Kernel{Name: names[i]}
		if k.Kernel, err = fileOf("--kernel", kernel); err != nil {
			return o, err
		}
		if i < len(f.initrds) && f.initrds[i] != "none" {
			if k.Initrd, err = fileOf("--initrd", f.initrds[i]); err != nil {
				return o, err
			}
		}
		o.Kernels = append(o.Kernels, k)
	}
	return o, nil
}

// shortNames are the shortest ends of paths that tell them apart; one that comes
// twice is numbered.
func shortNames(paths []string) []string {
	names := make([]string, len(paths))
	for i, path := range paths {
		parts := strings.Split(path, "/")
		for n := 1; n <= len(parts); n++ {
			names[i] = strings.Join(parts[len(parts)-n:], "/")
			if !slices.ContainsFunc(paths, func(other string) bool {
				return other != path && (other == names[i] || strings.HasSuffix(other, "/"+names[i]))
			}) {
				break
			}
		}
		if slices.Contains(paths[:i], path) {
			names[i] = fmt.Sprintf("%s (%d)", names[i], i+1)
		}
	}
	return names
}

// fileOf is the absolute path of a file that is there.
func fileOf(flag, name string) (string, error) {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	return filepath.Abs(name)
}

func (v verbs) printBoots(c *bootstudy.Description) {
	if len(c.Spans) == 0 {
		return // no boot ended well
	}
	header := []any{"stretch"}
	for i, kernel := range c.Targets {
		header = append(header, kernel)
		if i > 0 {
			header = append(header, "times less")
		}
	}
	t := v.Table(append(header, "from what to what")...)
	for _, s := range c.Spans {
		row := table.Row{s.Name}
		for i, kernel := range c.Targets {
			row = append(row, shownEstimate(s.Here, kernel))
			if i > 0 {
				row = append(row, shownEstimate(s.Speedup, kernel))
			}
		}
		if s.Metric.Unit == sample.Seconds {
			t.AppendRow(append(row, s.Meaning))
		}
	}
	t.Render()
	fmt.Fprintln(v.Stdout(), "\nSeconds: medians, with 95 % intervals from 6 boots on. Stretches are of the host's clock.")
	if c.Refused != "" {
		fmt.Fprintln(v.Stdout(), "! This claims nothing of the machine:", c.Refused)
	}
}

// shownEstimate is a number with its interval; "" where there is none.
func shownEstimate(of map[string]stats.Estimate, name string) string {
	e, ok := of[name]
	switch {
	case !ok:
		return ""
	case e.Interval.Method == stats.MethodNone:
		return fmt.Sprintf("%.3f", e.Value)
	}
	return fmt.Sprintf("%.3f [%.3f, %.3f]", e.Value, e.Interval.Low, e.Interval.High)
}
