package kerneltools

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/kerneltools/bootlog"
	"github.com/tarelab/tare/internal/kerneltools/bootstudy"
	"github.com/tarelab/tare/internal/kerneltools/kbuild"
	"github.com/tarelab/tare/internal/lab"
)

func (v verbs) bootCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "boot",
		GroupID: experiment.GroupKernels,
		Short:   "Say where a boot's time goes",
	}
	c.AddCommand(v.bootRunCommand(), v.bootProfileCommand())
	return c
}

// bootProfileFlags are the options of tare boot profile.
type bootProfileFlags struct {
	top          int
	boot         int
	published    bool
	json         bool
	source, arch string
}

func (v verbs) bootProfileCommand() *cobra.Command {
	var f bootProfileFlags
	c := &cobra.Command{
		Use:   "profile LOG...",
		Short: "Take a boot's log apart: steps, initcalls, waits, phases, subsystems, units",
		Long: `profile reads the log of a boot, of this machine or of any other: dmesg in all
its forms, a serial console's log with or without grabserial's times, syslog, or
journalctl (short-monotonic, short-delta, short-precise, short-iso, json, export),
also compressed with gzip; "-" is standard input. With the kernel's initcall_debug
it lists what each part of the kernel cost; time that an initcall spent waiting,
such as for the initramfs to be unpacked, is taken from it and named. With --source
it names the object file and the Kconfig symbol of each initcall. The costliest
come first.

Several logs, or several boots in one, are also set side by side.`,
		Example: `  dmesg | tare boot profile -
  journalctl -b -o json | tare boot profile -
  tare boot profile before.log after.log
  tare boot profile serial.log --source /usr/src/linux-source-6.1 --top 30
  tare boot profile serial.log --published`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &lab.InputError{Err: fmt.Errorf("profile takes a log, or - for standard input\nusage: %s", c.UseLine())}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return v.bootProfile(c, args, &f) },
	}
	flags := c.Flags()
	flags.IntVar(&f.top, "top", 12, "rows of each table; 0: all")
	flags.IntVar(&f.boot, "boot", 0, "only this boot of each log, from 1; -1 is the last (default: all)")
	flags.BoolVar(&f.published, "published", false, "show the published boot beside it")
	flags.BoolVar(&f.json, "json", false, "print as JSON, times in nanoseconds")
	flags.StringVar(&f.source, "source", "", "the kernel's source tree, to name objects and Kconfig symbols")
	flags.StringVar(&f.arch, "arch", "x86", "with --source: the architecture, as below its arch/")
	return c
}

// A bootOf is one boot of one log.
type bootOf struct {
	Log     string           `json:"log"`
	Number  int              `json:"boot"` // in the log, from 1
	Profile *bootlog.Profile `json:"profile"`
}

func (b bootOf) name() string {
	if b.Number > 1 {
		return fmt.Sprintf("%s, boot %d", b.Log, b.Number)
	}
	return b.Log
}

func (v verbs) bootProfile(c *cobra.Command, args []string, f *bootProfileFlags) error {
	if f.top < 0 {
		return &lab.InputError{Err: fmt.Errorf("--top %d: must be at least 0", f.top)}
	}
	if f.source == "" && c.Flags().Changed("arch") {
		return &lab.InputError{Err: errors.New("--arch is the architecture of a kernel's source: name the tree with --source")}
	}
	var boots []bootOf
	for _, name := range args {
		found, err := readLog(name, f.boot)
		if err != nil {
			return err
		}
		boots = append(boots, found...)
	}
	if f.source != "" {
		if err := attribute(c, boots, f); err != nil {
			return err
		}
	}
	if f.json {
		return v.JSON(boots)
	}
	var study *bootstudy.Published
	if f.published {
		text, err := v.Publication(bootstudy.PublishedBy)
		if err != nil {
			return err
		}
		if study, err = bootstudy.ReadPublished(text); err != nil {
			return err
		}
	}
	for i, b := range boots {
		if i > 0 {
			fmt.Fprintln(v.Stdout())
		}
		v.printBoot(b, f.top)
		if study != nil {
			v.printBesidePublished(b.Profile, study)
		}
	}
	if len(boots) > 1 {
		v.printSideBySide(boots)
	}
	return nil
}

// readLog profiles the boots of a log, or the one that is asked for.
func readLog(name string, only int) ([]bootOf, error) {
	in := os.Stdin
	if name != "-" {
		file, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil, &lab.InputError{Err: fmt.Errorf("read the log: %w", err)}
		}
		if err != nil {
			return nil, fmt.Errorf("read the log: %w", err)
		}
		defer file.Close()
		in = file
	}
	boots, err := bootlog.Parse(in)
	if err != nil {
		return nil, &lab.InputError{Err: fmt.Errorf("%s: %w", name, err)}
	}
	var out []bootOf
	for i := range boots {
		out = append(out, bootOf{name, i + 1, bootlog.New(&boots[i])})
	}
	switch {
	case only == 0:
		return out, nil
	case only < 0 && -only <= len(out):
		return out[len(out)+only:][:1], nil
	case only > 0 && only <= len(out):
		return out[only-1 : only], nil
	}
	return nil, &lab.InputError{Err: fmt.Errorf("%s has %d boots, not a boot %d", name, len(out), only)}
}

// attribute finds the initcalls of all boots in the kernel's source.
func attribute(c *cobra.Command, boots []bootOf, f *bootProfileFlags) error {
	tree, err := kbuild.Open(f.source, f.arch)
	if err != nil {
		return &lab.InputError{Err: err}
	}
	var names []string
	for _, b := range boots {
		names = append(names, b.Profile.CallNames()...)
	}
	slices.Sort(names)
	found, err := tree.Find(c.Context(), slices.Compact(names))
	if err != nil {
		return err
	}
	origins := map[string][]bootlog.Origin{}
	for name, all := range found {
		for _, o := range all {
			origins[name] = append(origins[name], bootlog.Origin{Object: o.Object, Symbol: o.Symbol})
		}
	}
	for _, b := range boots {
		b.Profile.Attribute(origins)
	}
	return nil
}
