package kerneltools

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/kerneltools/kconfig"
	"github.com/tarelab/tare/internal/kerneltools/textfile"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/needs"
)

func (v verbs) trimCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "trim",
		GroupID: experiment.GroupKernels,
		Short:   "Check and make kernels for container hosts",
	}
	c.AddCommand(v.trimCheckCommand(), v.trimBuildCommand(), v.trimLearnCommand(), v.trimProveCommand(), v.trimImageCommand(), v.trimNeedsCommand())
	return c
}

// trimCheckFlags are the options of tare trim check.
type trimCheckFlags struct {
	needs []string
	all   bool
	json  bool
}

func (v verbs) trimCheckCommand() *cobra.Command {
	var f trimCheckFlags
	c := &cobra.Command{
		Use:   "check CONFIG",
		Short: "Say whether a kernel's configuration has what containers need",
		Long: `check reads a kernel's configuration and says of each symbol that the needs ask
for whether it is built in, a module, missing, absent (an unmet dependency hides
it), or unknown to this kernel's version; with the reason and who says so. CONFIG
is a .config, a /boot/config-*, a /proc/config.gz, "running" for this machine's
kernel, or "-". No root, nothing is run. The exit code is 4 where something that
is not optional is missing. docker-all asks for all that moby's check-config.sh
asks for, and more. tare trim needs lists the needs; write your own as a file.`,
		Example: `  tare trim check running --needs docker
  tare trim check /boot/config-6.1.0-56-cloud-amd64 --needs docker,systemd,virtio-pci
  tare trim check .config --needs podman,./mine.yaml --all`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return v.trimCheck(args[0], &f) },
	}
	flags := c.Flags()
	flags.StringSliceVar(&f.needs, "needs", []string{"docker"}, "needs, by id or by a path with a slash")
	flags.BoolVar(&f.all, "all", false, "list also what is there, and what this version does not have")
	flags.BoolVar(&f.json, "json", false, "print as JSON")
	return c
}

// shownCheck is what --json prints.
type shownCheck struct {
	Version  string            `json:"version"`
	Arch     string            `json:"arch"`
	Needs    []string          `json:"needs"`
	Findings []kconfig.Finding `json:"findings"`
	Warnings []string          `json:"warnings,omitempty"`
}

func (v verbs) trimCheck(name string, f *trimCheckFlags) error {
	wants, err := kconfig.Collect(f.needs, needs.Load)
	if err != nil {
		return &lab.InputError{Err: err}
	}
	config, err := readConfig(name)
	if err != nil {
		return err
	}
	found := config.Check(wants)
	if f.json {
		err = v.JSON(shownCheck{config.Version, config.Arch, f.needs, found, config.Warnings})
	} else {
		v.printFindings(config, found, f)
	}
	if err != nil {
		return err
	}
	if failing := count(found, kconfig.Finding.Fails); failing > 0 {
		return &lab.LackError{What: fmt.Sprintf("%s lacks %d of what %s needs", name, failing, strings.Join(f.needs, ", "))}
	}
	return nil
}

func count(found []kconfig.Finding, which func(kconfig.Finding) bool) (n int) {
	for _, f := range found {
		if which(f) {
			n++
		}
	}
	return n
}

// readConfig reads a configuration by its name.
func readConfig(name string) (*kconfig.Config, error) {
	var in io.Reader = os.Stdin
	if name != "-" {
		file, err := openConfig(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	c, err := kconfig.Parse(in)
	if errors.Is(err, textfile.ErrNotText) && !strings.Contains(err.Error(), "take what") {
		err = fmt.Errorf("%w; of a kernel's image take the config-* beside it, or what scripts/extract-ikconfig of Linux prints of it", err)
	}
	if err != nil {
		return nil, &lab.InputError{Err: fmt.Errorf("%s: %w", name, err)}
	}
	return c, nil
}

func openConfig(name string) (*os.File, error) {
	if name != "running" {
		file, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil, &lab.InputError{Err: fmt.Errorf("read the configuration: %w", err)}
		}
		return file, err
	}
	places := []string{"/proc/config.gz"}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		places = append(places, "/boot/config-"+unix.ByteSliceToString(u.Release[:]))
	}
	for _, place := range places {
		if file, err := os.Open(place); err == nil {
			return file, nil
		}
	}
	return nil, &lab.LackError{What: fmt.Sprintf("the running kernel's configuration is in none of %s", strings.Join(places, ", "))}
}

func (v verbs) printFindings(config *kconfig.Config, found []kconfig.Finding, f *trimCheckFlags) {
	kernel := "a kernel of unknown version"
	if config.Version != "" {
		kernel = "Linux " + config.Version
	}
	if config.Arch != "" {
		kernel += ", " + config.Arch
	}
	good := count(found, kconfig.Finding.Good)
	failing := count(found, kconfig.Finding.Fails)
	unknown := count(found, func(f kconfig.Finding) bool { return f.State == kconfig.Unknown })
	fmt.Fprintf(v.Stdout(), "%s: needs %s ask for %d symbols: %d are there, %d missing, %d missing that are optional, %d not of this version\n",
		kernel, strings.Join(f.needs, ", "), len(found), good, failing, len(found)-good-failing-unknown, unknown)
	for _, w := range config.Warnings {
		fmt.Fprintln(v.Stdout(), "!", w)
	}
	var rows []table.Row
	for _, pass := range []func(kconfig.Finding) bool{
		kconfig.Finding.Fails,
		func(x kconfig.Finding) bool { return !x.Good() && !x.Fails() && x.State != kconfig.Unknown },
		func(x kconfig.Finding) bool { return f.all && (x.Good() || x.State == kconfig.Unknown) },
	} {
		for _, x := range found {
			if pass(x) {
				rows = append(rows, findingRow(x))
			}
		}
	}
	v.part("Symbols", 0, []any{"", "symbol", "need", "without it", "says"}, rows, 0)
}

func findingRow(f kconfig.Finding) table.Row {
	state := string(f.State)
	switch {
	case f.By != "":
		state += " by " + f.By
	case f.State == kconfig.Wrong:
		state = fmt.Sprintf("is %s, wants %s", f.Has, f.Value)
	case !f.Good() && f.Optional:
		state += " (optional)"
	}
	return table.Row{state, f.Symbol, f.Need, f.Why, f.Source}
}

// listedNeed is a built-in need as tare trim needs --json lists it.
type listedNeed struct {
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	Symbols  int      `json:"symbols"` // without those of the needs that it includes
	Includes []string `json:"includes,omitempty"`
}

func (v verbs) trimNeedsCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "needs",
		Short: "List the needs that are built in",
		Args:  cobra.ExactArgs(0),
		RunE: func(*cobra.Command, []string) error {
			var all []listedNeed
			for _, id := range needs.IDs() {
				n, err := needs.Load(id)
				if err != nil {
					return err
				}
				all = append(all, listedNeed{id, n.Title, len(n.Wants), n.Includes})
			}
			if asJSON {
				return v.JSON(all)
			}
			t := v.Table("need", "what", "symbols", "includes")
			for _, n := range all {
				t.AppendRow(table.Row{n.ID, n.Title, n.Symbols, strings.Join(n.Includes, ", ")})
			}
			t.Render()
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return c
}
