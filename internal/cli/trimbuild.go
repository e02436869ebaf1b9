package cli

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

	"github.com/tarelab/tare/internal/kernel/kconfig"
	"github.com/tarelab/tare/internal/kernel/trim"
	"github.com/tarelab/tare/needs"
)

// trimBuildFlags are the options of tare trim build.
type trimBuildFlags struct {
	source, vm, way, base, compression string
	output, build                      string
	needs                              []string
	jobs                               int
	minimize                           bool
	budget                             time.Duration
	json                               bool
}

func trimBuildCommand(env *Env) *cobra.Command {
	var f trimBuildFlags
	c := &cobra.Command{
		Use:   "build",
		Short: "Make a kernel that holds what the needs ask for, and little else",
		Long: `build takes a kernel's source (a directory, or a Debian package such as
linux-source-6.1, which is fetched and not installed), lets its own Kconfig make
the configuration, and builds. Bottom-up starts from nothing; top-down from a base
without its modules and without what costs boot time and no need asks for. A
wanted symbol that Kconfig drops is an error that names the dependency that is
off; optional ones that are not in it are listed. An interrupted build goes on
where it was. Beside the kernel lie its configuration, its sizes (kernel.json)
and a script that makes it again. x86-64 only.

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
  tare trim build --needs docker,nftables,ext4,systemd --minimize --budget 8h -o smallest`,
		Args: exactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error { return env.trimBuild(c, &f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.source, "source", "linux-source-6.1", "the kernel's source: a directory or a package")
	flags.StringSliceVar(&f.needs, "needs", []string{"docker", "ext4", "systemd"}, "needs, by id or by a path with a slash")
	flags.StringVar(&f.vm, "vm", "qemu/q35", "the machine that it must start on")
	flags.StringVar(&f.way, "way", string(trim.BottomUp), "bottom-up or top-down")
	flags.StringVar(&f.base, "base", "", "top-down: a configuration's file, or running")
	flags.StringVar(&f.compression, "compression", "lz4", "none (an ELF image), lz4, zstd, gzip or xz")
	flags.StringVarP(&f.output, "output", "o", "trimmed", "directory for the kernel")
	flags.StringVar(&f.build, "build", "", "directory for objects (default below the state directory, by source, way and machine)")
	flags.IntVarP(&f.jobs, "jobs", "j", runtime.NumCPU(), "compilers at once")
	flags.BoolVar(&f.minimize, "minimize", false, "search for the smallest kernel that passes the proof")
	flags.DurationVar(&f.budget, "budget", 4*time.Hour, "of --minimize: no candidate goes on after it")
	flags.BoolVar(&f.json, "json", false, "print as JSON")
	return c
}

func (env *Env) trimBuild(c *cobra.Command, f *trimBuildFlags) error {
	o, err := f.options()
	if err != nil {
		return usageError{err}
	}
	if f.base != "" {
		if o.Base, err = readConfig(f.base); err != nil {
			return err
		}
	}
	if f.minimize {
		return env.trimMinimize(c, f, o)
	}
	if err := env.trimSource(c, f, &o); err != nil {
		return err
	}
	began := time.Now()
	result, err := trim.Build(c.Context(), o, env.buildProgress(began))
	if err != nil {
		return notBuilt(err)
	}
	if f.json {
		return env.printJSON(result)
	}
	env.printKernel(result, time.Since(began))
	return nil
}

// trimSource finds the source, and names the directory for objects.
func (env *Env) trimSource(c *cobra.Command, f *trimBuildFlags, o *trim.Options) (err error) {
	kept := filepath.Join(env.config(c).StateDir, "kernels")
	say := func(s string) { fmt.Fprintln(env.Stderr, s) }
	if o.Source, err = trim.Source(c.Context(), f.source, filepath.Join(kept, "source"), say); err != nil {
		return notBuilt(err)
	}
	if o.Build == "" {
		o.Build = filepath.Join(kept, "build", filepath.Base(o.Source)+"-"+f.way+"-"+strings.ReplaceAll(f.vm, "/", "-"))
	}
	return nil
}

// options checks what the flags say.
func (f *trimBuildFlags) options() (trim.Options, error) {
	o := trim.Options{Way: trim.Way(f.way), Compression: trim.Compression(f.compression), Jobs: f.jobs}
	machine, err := trim.NeedOfVM(f.vm)
	if err != nil {
		return o, err
	}
	if len(f.needs) == 0 {
		return o, errors.New("--needs: no need is named")
	}
	if o.Wants, err = kconfig.Collect(append(slices.Clone(f.needs), machine), needs.Load); err != nil {
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
	switch {
	case errors.As(err, &tools), errors.As(err, &fetch):
		return lacksError{err.Error()}
	case errors.As(err, &source), errors.As(err, &lost):
		return usageError{err}
	}
	return err
}

// buildProgress tells how far a build is: on a terminal in one line, else
// every 30 s.
func (env *Env) buildProgress(began time.Time) func(trim.Progress) {
	live := terminal(env.Stderr)
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
			fmt.Fprintf(env.Stderr, "\r\x1b[K%.*s", max(env.width()-1, 20), line)
		} else {
			fmt.Fprintln(env.Stderr, line)
		}
	}
}

func (env *Env) printKernel(r *trim.Result, took time.Duration) {
	if terminal(env.Stderr) {
		fmt.Fprint(env.Stderr, "\r\x1b[K")
	}
	fmt.Fprintf(env.Stdout, "Linux %s: %s, %.2f MB (text %.2f, data %.2f, bss %.2f), %d symbols built in; %d files in %s\n",
		r.Release, r.Image, megabytes(r.Sizes["image"]), megabytes(r.Sizes["text"]), megabytes(r.Sizes["data"]), megabytes(r.Sizes["bss"]),
		r.Symbols, r.Objects, took.Round(time.Second))
	var rows []table.Row
	for _, symbol := range slices.Sorted(maps.Keys(r.GivenUp)) {
		rows = append(rows, table.Row{symbol, r.GivenUp[symbol]})
	}
	env.part("Given up: optional, and not in it (a need that is named keeps its own)", 0, []any{"symbol", "why"}, rows, 0)
	fmt.Fprintf(env.Stdout, "\nconfiguration: %s\nto make it again: %s\n", r.Config, r.Script)
}

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }
