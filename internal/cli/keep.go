package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/sys"
)

func removeRunsCommand(env *Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:               "rm RUN...",
		Short:             "Remove runs with all their files",
		Example:           "  tare runs rm 20261121-081500-survey",
		ValidArgsFunction: env.completeRuns,
		Args:              someRuns,
		RunE: func(c *cobra.Command, args []string) error {
			var dirs []string // all are found before the first goes
			for _, name := range args {
				dir, err := store.Resolve(env.config(c).StateDir, name)
				if err == nil {
					err = store.Removable(dir)
				}
				if err != nil {
					return refusedBy(err)
				}
				if !slices.Contains(dirs, dir) {
					dirs = append(dirs, dir)
				}
			}
			gone := []string{} // [] in JSON for none
			err := removeRuns(dirs, func(i int) {
				gone = append(gone, dirs[i])
				if !asJSON {
					fmt.Fprintln(visible{env.Stdout}, "removed", dirs[i])
				}
			})
			if asJSON {
				err = errors.Join(err, env.printJSON(gone))
			}
			return err
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

// removeRuns removes runs, and tells of each that is gone.
func removeRuns(dirs []string, gone func(i int)) error {
	var errs []error
	for i, dir := range dirs {
		err := store.Remove(dir)
		if err == nil {
			gone(i)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func someRuns(c *cobra.Command, args []string) error {
	return someArgs("no run is named; tare runs lists them")(c, args)
}

func nameRunCommand(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "name RUN [NAME]",
		Short: "Give a run a name to call it by, or take its name away",
		Example: `  tare runs name last before-the-upgrade
  tare report before-the-upgrade last`,
		ValidArgsFunction: func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 { // a name that is new
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return env.completeRuns(c, args, typed)
		},
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return usageError{fmt.Errorf("name takes a run and its name\nusage: %s", c.UseLine())}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := store.Resolve(env.config(c).StateDir, args[0])
			if err == nil {
				err = store.SetName(dir, append(args, "")[1])
			}
			if err != nil {
				return refusedBy(err)
			}
			return nil
		},
	}
}

func exportRunCommand(env *Env) *cobra.Command {
	var output string
	var asJSON bool
	c := &cobra.Command{
		Use:   "export RUN",
		Short: "Write a run as one file, for another machine",
		Long: `export writes a run with its records, logs and profiles as a gzipped tar. Values of the
environment of workloads stay behind.`,
		Example: `  tare runs export last -o run.tar.gz
  tare runs export last -o - | ssh other tare runs import -`,
		ValidArgsFunction: env.completeRuns,
		Args:              exactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			runs, err := env.openRuns(c, args)
			if err != nil {
				return err
			}
			switch {
			case output == standardOutput && asJSON:
				return usageError{errors.New("--json: standard output has the run: name a file with --output")}
			case output == standardOutput:
				return runs[0].Export(env.Stdout)
			}
			file := output
			if file == "" {
				file = runs[0].Manifest().ID + ".tar.gz"
			}
			if err := checkOutput("--output", file); err != nil {
				return err
			}
			if err := lab.WriteOutput(file, runs[0].Export); err != nil {
				return err
			}
			if asJSON {
				return env.printJSON(written{File: file})
			}
			fmt.Fprintln(visible{env.Stdout}, file)
			return nil
		},
	}
	jsonFlag(c, &asJSON)
	c.Flags().StringVarP(&output, "output", "o", "", "the file, - for standard output (default ID.tar.gz, here)")
	return c
}

func importRunsCommand(env *Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "import FILE...",
		Short: "Add runs that export or --stream wrote, - for standard input",
		Long: `import adds runs from files that tare runs export or tare run --stream wrote, after it
has checked that they are whole. They can be read and compared; they cannot be resumed, because the commands
in them are somebody else's.`,
		Example: "  tare runs import run.tar.gz",
		Args:    someArgs("no file is named"),
		RunE: func(c *cobra.Command, args []string) error {
			return env.printEach(asJSON, args, func(name string) (string, error) {
				dir, err := importRun(env.config(c).StateDir, name)
				if err != nil {
					return "", refusedBy(fmt.Errorf("%s: %w", name, err))
				}
				return dir, nil
			})
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

// printEach prints what do makes of each name, if anything: a line as soon as it is done,
// or a list as JSON of what was done until an error.
func (env *Env) printEach(asJSON bool, names []string, do func(name string) (string, error)) error {
	done := []string{} // [] for none
	var err error
	for _, name := range names {
		var made string
		if made, err = do(name); err != nil {
			break
		}
		if made == "" {
			continue
		}
		done = append(done, made)
		if !asJSON {
			fmt.Fprintln(visible{env.Stdout}, made)
		}
	}
	if asJSON {
		err = errors.Join(err, env.printJSON(done))
	}
	return err
}

func importRun(state, name string) (dir string, err error) {
	if name == "-" {
		return store.Import(state, os.Stdin)
	}
	f, err := sys.OpenGiven(name, limit.RunArchive)
	if err != nil {
		return "", usageError{err}
	}
	defer func() { _ = f.Close() }() // only read
	return store.Import(state, f)
}

func pruneRunsCommand(env *Env) *cobra.Command {
	var keep, days int
	var yes, asJSON bool
	c := &cobra.Command{
		Use:   "prune",
		Short: "Remove old runs that have no name",
		Long: `prune removes the runs that are both older than --days and not among the --keep newest.
Runs with a name and runs that are being measured stay. Without --yes it lists what it
would remove.`,
		Example: `  tare runs prune --keep 20
  tare runs prune --days 30 --yes`,
		Args: exactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("keep") && !c.Flags().Changed("days") || keep < 0 || days < 0 {
				return usageError{errors.New("say which runs stay: --keep N, the newest, or --days N, the youngest; neither is negative")}
			}
			runs, err := store.List(env.config(c).StateDir)
			if err != nil {
				return err
			}
			old := oldRuns(runs, keep, time.Now().AddDate(0, 0, -days))
			switch {
			case yes && asJSON:
				gone := []store.Summary{}
				err := removeRuns(directories(old), func(i int) { gone = append(gone, old[i]) })
				return errors.Join(err, env.printJSON(gone))
			case yes:
				return removeRuns(directories(old), func(i int) { fmt.Fprintln(visible{env.Stdout}, "removed", old[i].Dir) })
			case asJSON:
				return env.printJSON(old)
			}
			env.listRuns(old)
			fmt.Fprintf(env.Stdout, "%d of %d runs; --yes removes them\n", len(old), len(runs))
			return nil
		},
	}
	c.Flags().IntVar(&keep, "keep", 0, "keep so many of the newest runs")
	c.Flags().IntVar(&days, "days", 0, "keep what is no older than so many days")
	c.Flags().BoolVar(&yes, "yes", false, "remove them")
	jsonFlag(c, &asJSON)
	return c
}

// oldRuns are the runs that prune removes, of runs in their order of age.
func oldRuns(runs []store.Summary, keep int, before time.Time) []store.Summary {
	old := []store.Summary{} // [] in JSON for none
	for _, r := range runs[:max(0, len(runs)-keep)] {
		if r.Created.Before(before) && r.Name == "" && !r.Live {
			old = append(old, r)
		}
	}
	return old
}

func directories(runs []store.Summary) []string {
	var dirs []string
	for _, r := range runs {
		dirs = append(dirs, r.Dir)
	}
	return dirs
}
