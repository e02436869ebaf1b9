package kerneltools

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/kerneltools/kconfig"
	"github.com/tarelab/tare/internal/kerneltools/trim"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/needs"
)

// trimBuildFlags are the options of tare trim build.
type trimBuildFlags struct {
	source, vm, way, base, compression string
	output, build, initrd              string
	needs                              []string
	jobs                               int
	minimize                           bool
	budget                             time.Duration
	json                               bool
}

func (v verbs) trimBuildCommand() *cobra.Command {
	var f trimBuildFlags
	c := &cobra.Command{
		Use:   "build",
		Short: "Make a kernel that holds what the needs ask for, and little else",
		Long: `build takes a kernel's source (a directory, or a Debian package such as
linux-source-6.1, which is fetched and not installed), lets its own Kconfig make
the configuration, and builds. Bottom-up starts from nothing; top-down from a base
without its modules and without what costs boot time and no need asks for. A
wanted symbol that Kconfig drops is an error that names the dependency that is
off; optional ones that are not in it are listed, and so are the needs that a base
meets and the kernel does not: a disk on SCSI or NVMe, LVM, VFAT, ... An interrupted build goes on
where it was. Beside the kernel lie its configuration, its sizes (kernel.json)
and a script that makes it again. The machine says the architecture: qemu/virt and
stratovirt/virt are of arm64, firecracker and cloud-hypervisor of this machine's, all others
of x86-64. A kernel of another architecture takes its cross compiler (gcc-aarch64-linux-gnu).

With --initrd busybox there is also initrd.cpio: this machine's static busybox and a
script that mounts root=/dev/NAME, UUID= or LABEL= with rootfstype=, rootflags=, ro
and rw, of a file system that the kernel has built in, and starts init=. Without an
initrd the kernel itself mounts root=/dev/NAME and PARTUUID=. Neither mounts a root
on LVM, RAID, encrypted disks or a network.

With --minimize it goes on by bisection: what no need insists on is taken out, all
at first, then the halves of what is refused. Each candidate is built, booted on
the machine (qemu/q35 or qemu/microvm) with systemd and Docker and put to the proof
that containers run, some ten minutes where the CPU is emulated. One that does not
build, panics, hangs or fails a check is refused. minimize.log in the output
directory holds every candidate with the reason, the kernel beside it is the
smallest that was proven, and the same command goes on where the last one ended.
As root; the needs must hold docker, nftables, ext4, systemd and crun.`,
		Example: `  tare trim build --source linux-source-6.1 --needs docker,ext4,systemd --vm qemu/microvm -o trimmed
  tare trim build --source ~/linux --needs podman,ext4 --way top-down --base running
  tare trim build --needs docker,ext4,quiet --compression none
  tare trim build --needs docker,ext4,systemd --vm qemu/virt -o trimmed-arm64
  tare trim build --needs docker,ext4,virtio-scsi --initrd busybox
  tare trim build --needs docker,nftables,ext4,systemd --minimize --budget 8h -o smallest`,
		Args: cobra.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error { return v.trimBuild(c, &f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.source, "source", "linux-source-6.1", "the kernel's source: a directory or a package")
	flags.StringSliceVar(&f.needs, "needs", []string{"docker", "ext4", "systemd"}, "needs, by id or by a path with a slash")
	flags.StringVar(&f.vm, "vm", "qemu/q35", "the machine that it must start on")
	flags.StringVar(&f.way, "way", string(trim.BottomUp), "bottom-up or top-down")
	flags.StringVar(&f.base, "base", "", "top-down: a configuration's file, or running")
	flags.StringVar(&f.compression, "compression", "", "none (an ELF image; of arm64 a flat one), lz4, zstd, gzip or xz (default lz4, or none where the machine loads nothing else; of arm64 none or gzip)")
	flags.StringVar(&f.initrd, "initrd", "none", "busybox (a minimal initramfs beside the kernel) or none")
	flags.StringVarP(&f.output, "output", "o", "trimmed", "directory for the kernel")
	flags.StringVar(&f.build, "build", "", "directory for objects (default below the cache directory, by source, way and machine)")
	flags.IntVarP(&f.jobs, "jobs", "j", runtime.NumCPU(), "compilers at once")
	flags.BoolVar(&f.minimize, "minimize", false, "search for the smallest kernel that passes the proof")
	flags.DurationVar(&f.budget, "budget", 4*time.Hour, "of --minimize: no candidate goes on after it")
	flags.BoolVar(&f.json, "json", false, "print as JSON")
	return c
}

func (v verbs) trimBuild(c *cobra.Command, f *trimBuildFlags) error {
	if err := notStandardOutput(f.output, "a kernel has a directory"); err != nil {
		return err
	}
	o, err := f.options()
	if err != nil {
		return &lab.InputError{Err: err}
	}
	if f.base != "" {
		if o.Base, err = readConfig(f.base); err != nil {
			return err
		}
		for _, w := range o.Base.Warnings {
			fmt.Fprintln(v.Stderr(), "!", f.base+":", w)
		}
	}
	if f.minimize {
		return v.trimMinimize(c, f, o)
	}
	if err := v.trimSource(c, f, &o); err != nil {
		return err
	}
	began := time.Now()
	result, err := trim.Build(c.Context(), o, v.buildProgress(began))
	if err != nil {
		return notBuilt(err)
	}
	gone, err := needsGone(o.Base, result)
	if err != nil {
		return err
	}
	if f.json {
		return v.JSON(shownBuild{result, idsOf(gone)})
	}
	v.printKernel(result, gone, time.Since(began))
	return nil
}

// shownBuild is what --json prints.
type shownBuild struct {
	*trim.Result
	NeedsGone []string `json:"needs_gone,omitempty"` // that the base met, and the kernel does not
}

// needsGone are the built-in needs that a base meets and the kernel made of it does
// not: by them its disk or file system may be out of reach.
func needsGone(base *kconfig.Config, r *trim.Result) (gone []*kconfig.Need, err error) {
	if base == nil {
		return nil, nil
	}
	made, err := readConfig(r.Config)
	if err != nil {
		return nil, err
	}
	for _, id := range needs.IDs() {
		wants, err := kconfig.Collect([]string{id}, needs.Load)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(base.Check(wants), kconfig.Finding.Fails) || !slices.ContainsFunc(made.Check(wants), kconfig.Finding.Fails) {
			continue
		}
		n, err := needs.Load(id)
		if err != nil {
			return nil, err
		}
		gone = append(gone, n)
	}
	return gone, nil
}

func idsOf(all []*kconfig.Need) (ids []string) {
	for _, n := range all {
		ids = append(ids, n.ID)
	}
	return ids
}

// trimSource finds the source, and names the directory for objects.
func (v verbs) trimSource(c *cobra.Command, f *trimBuildFlags, o *trim.Options) (err error) {
	cache := v.Config(c).CacheDir
	if cache == "" {
		return &lab.LackError{What: "there is no directory to keep sources and objects in: set HOME or XDG_CACHE_HOME"}
	}
	kept := trim.StoreIn(cache)
	if o.Source, err = kept.Source(c.Context(), f.source, func(s string) { fmt.Fprintln(v.Stderr(), s) }); err != nil {
		return notBuilt(err)
	}
	if o.Build == "" {
		o.Build = kept.Objects(o.Source, f.way, strings.ReplaceAll(f.vm, "/", "-"))
	}
	return nil
}

// options checks what the flags say.
func (f *trimBuildFlags) options() (trim.Options, error) {
	o := trim.Options{Way: trim.Way(f.way), Jobs: f.jobs}
	machine, err := trim.MachineOf(f.vm)
	if err != nil {
		return o, err
	}
	o.Arch = machine.Arch
	if o.Compression, err = machine.Pack(trim.Compression(f.compression)); err != nil {
		return o, fmt.Errorf("--compression: %w", err)
	}
	if len(f.needs) == 0 {
		return o, errors.New("--needs: no need is named")
	}
	ids := append(slices.Clone(f.needs), machine.Need)
	switch f.initrd {
	case "busybox":
		o.Initrd, ids = true, append(ids, "initrd")
	case "none":
	default:
		return o, fmt.Errorf("--initrd %q: there are busybox and none", f.initrd)
	}
	if o.Wants, err = kconfig.Collect(ids, needs.Load); err != nil {
		return o, err
	}
	if o.Output, err = filepath.Abs(f.output); err != nil {
		return o, err
	}
	if f.build != "" {
		if o.Build, err = filepath.Abs(f.build); err != nil {
			return o, err
		}
	}
	if f.minimize && f.budget <= 0 {
		return o, fmt.Errorf("--budget %v: must be positive", f.budget)
	}
	return o, o.Check(f.base != "")
}

// notBuilt gives errors of a build their exit code.
func notBuilt(err error) error {
	var tools *trim.ToolsError
	var fetch *trim.FetchError
	var source *trim.SourceError
	var lost *trim.LostError
	var busy *trim.BusyError
	var config *trim.ConfigError
	switch {
	case errors.As(err, &tools), errors.As(err, &fetch), errors.As(err, &busy):
		return &lab.LackError{What: err.Error()}
	case errors.As(err, &source), errors.As(err, &lost), errors.As(err, &config):
		return &lab.InputError{Err: err}
	}
	return err
}

// buildProgress tells how far a build is: on a terminal in one line, else
// every 30 s.
func (v verbs) buildProgress(began time.Time) func(trim.Progress) {
	live := v.Live()
	shown := began
	return func(p trim.Progress) {
		every := 30 * time.Second
		if live {
			every = 200 * time.Millisecond
		}
		if time.Since(shown) < every {
			return
		}
		shown = time.Now()
		line := fmt.Sprintf("building: %d files in %s, %s", p.Objects, time.Since(began).Round(time.Second), p.What)
		if live {
			v.ClearLine()
			fmt.Fprintf(v.Stderr(), "%.*s", max(v.Width()-1, 20), line)
		} else {
			fmt.Fprintln(v.Stderr(), line)
		}
	}
}

func (v verbs) printKernel(r *trim.Result, gone []*kconfig.Need, took time.Duration) {
	v.ClearLine()
	fmt.Fprintf(v.Stdout(), "Linux %s: %s, %.2f MB (text %.2f, data %.2f, bss %.2f), %d symbols built in; %d files in %s\n",
		r.Release, r.Image, megabytes(r.Sizes["image"]), megabytes(r.Sizes["text"]), megabytes(r.Sizes["data"]), megabytes(r.Sizes["bss"]),
		r.Symbols, r.Objects, took.Round(time.Second))
	var rows []table.Row
	for _, symbol := range slices.Sorted(maps.Keys(r.GivenUp)) {
		rows = append(rows, table.Row{symbol, r.GivenUp[symbol]})
	}
	v.part("Given up: optional, and not in it (a need that is named keeps its own)", 0, []any{"symbol", "why"}, rows, 0)
	rows = nil
	for _, n := range gone {
		rows = append(rows, table.Row{n.ID, n.Title})
	}
	v.part("! The base can, and this kernel cannot (a need that is named with --needs stays)", 0, []any{"need", "what"}, rows, 0)
	if r.Initrd != "" {
		fmt.Fprintf(v.Stdout(), "\ninitrd: %s, %.2f MB\n", r.Initrd, megabytes(r.Sizes["initrd"]))
	}
	fmt.Fprintf(v.Stdout(), "\nconfiguration: %s\nto make it again: %s\n", r.Config, r.Script)
}

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }
