package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

func reportCommand(env *Env) *cobra.Command {
	var format, output string
	var salvage, all, share bool
	c := &cobra.Command{
		Use:   "report RUN...",
		Short: "Show a run, or runs of the same study compared with the first",
		Long: `report shows what a run says: a summary of a page, or with --all every table. RUN is a run's id, the start of one, a run's
directory, or "last". With several runs each later one is compared with the first,
cell by cell, each scaled to its own control; facts in which the machines differ
are listed, never averaged away.`,
		Example: `  tare report last
  tare report last --all
  tare report last --format html -o report.html
  tare report last --share --format html -o for-others.html
  tare report last --format benchstat -o new.txt
  tare report 20261121-0815-survey last
  tare report before after-a after-b --format md`,
		ValidArgsFunction: env.completeRuns,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 1 {
				return usageError{errors.New("report takes one run, or several to compare with the first; tare runs lists them")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			kind, err := report.ParseFormat(format)
			if err != nil {
				return usageError{err}
			}
			if err := checkOutput("--output", output); err != nil {
				return err
			}
			runs, err := env.reportRuns(c, args, salvage, share)
			if err != nil {
				return err
			}
			if kind == report.FormatBenchstat {
				return env.benchstat(runs, output)
			}
			in, err := env.reportInput(c, args, runs, share)
			if err != nil {
				return err
			}
			return env.writeTo(output, func(w io.Writer, o report.Options) error {
				o.All = all
				return report.Write(w, kind, in, o)
			})
		},
	}
	formatFlag(c, &format, "text, md, csv, json, html, benchstat or openmetrics", "text", "md", "csv", "json", "html", "benchstat", "openmetrics")
	c.Flags().BoolVar(&all, "all", false, "in text, every table in place of the summary")
	c.Flags().BoolVar(&salvage, "salvage", false, "leave damaged records out, with a warning, instead of refusing the run")
	c.Flags().BoolVar(&share, "share", false, "leave out what identifies machines: host names, addresses, boot ids, directories")
	outputFlag(c, &output)
	return c
}

// outputFlag defines --output of a verb that otherwise prints.
func outputFlag(c *cobra.Command, file *string) {
	c.Flags().StringVarP(file, "output", "o", "", "write to this file; - is standard output, as without it")
}

// writeTo writes to a file, or to standard output for none and for -.
func (env *Env) writeTo(file string, write func(io.Writer, report.Options) error) error {
	if file == "" || file == standardOutput {
		return write(env.Stdout, env.textOptions())
	}
	return lab.WriteOutput(file, func(w io.Writer) error { return write(w, report.Options{}) })
}

// reportRuns opens the runs of a report.
func (env *Env) reportRuns(c *cobra.Command, names []string, salvage, share bool) ([]*store.Run, error) {
	runs, err := env.openRuns(c, names)
	if err != nil {
		return nil, err
	}
	called := map[string]string{}
	for i, r := range runs {
		if other := called[r.Manifest().ID]; other != "" {
			return nil, usageError{fmt.Errorf("%s and %s are the same run", other, names[i])}
		}
		called[r.Manifest().ID] = names[i]
		if salvage {
			r.Salvage()
		}
	}
	if share {
		err = store.Share(runs...)
	}
	return runs, err
}

// benchstat writes the samples of runs, which benchstat compares by itself.
func (env *Env) benchstat(runs []*store.Run, output string) error {
	all := make([]report.Input, len(runs))
	for i, run := range runs {
		var err error
		if _, all[i], err = lab.Report(run); err != nil {
			return err
		}
	}
	return env.writeTo(output, func(w io.Writer, _ report.Options) error { return report.Benchstat(w, all...) })
}

func (env *Env) reportInput(c *cobra.Command, names []string, runs []*store.Run, share bool) (in report.Input, err error) {
	if len(runs) == 1 {
		in, err = env.Experiments.Report(runs[0])
		in.Page = pageOf(runs[0])
	} else {
		in, err = lab.Compare(runs[0], runs[1:]...)
	}
	if share {
		in.Page = ""
		return in, err // runs are named by their ids
	}
	for i, r := range runs {
		in.Names = append(in.Names, env.callRun(c, names[i], r))
	}
	return in, err
}

// callRun is how a later command can name a run: by its id, which is shorter than its
// directory and means the same run later, which "last" does not. A run outside the store
// that is used without --state is named by its directory.
func (env *Env) callRun(c *cobra.Command, name string, run *store.Run) string {
	switch {
	case strings.ContainsRune(name, filepath.Separator):
		return name
	case c.Flags().Changed("state"), filepath.Dir(filepath.Dir(run.Dir())) != env.config(c).StateDir:
		return run.Dir()
	}
	return run.Manifest().ID
}

// pageOf is a run's HTML page, "" where it has none.
func pageOf(run *store.Run) string {
	page := filepath.Join(run.Dir(), "report.html")
	if info, err := os.Lstat(page); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return page
}

// openRuns opens runs by what the user calls them.
func (env *Env) openRuns(c *cobra.Command, names []string) ([]*store.Run, error) {
	root := env.config(c).StateDir
	runs := make([]*store.Run, len(names))
	for i, name := range names {
		dir, err := store.Resolve(root, name)
		if err == nil {
			runs[i], err = store.Open(dir)
		}
		if err != nil {
			return nil, usageError{err}
		}
	}
	return runs, nil
}

func (env *Env) textOptions() report.Options {
	return report.Options{Width: env.width(), Color: env.draws(env.Stdout) && env.Getenv("NO_COLOR") == ""}
}

// formatFlag defines --format and --json, which is short for one of its values.
func formatFlag(c *cobra.Command, format *string, usage string, formats ...string) {
	c.Flags().StringVarP(format, "format", "f", "text", usage)
	c.Flags().BoolFunc("json", "the same as --format json", func(text string) error {
		on, err := strconv.ParseBool(text)
		if on {
			*format = "json"
		}
		return err
	})
	complete(c, "format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// jsonFlag defines them for a verb that prints text or JSON. Another format is refused
// before the verb does anything.
func jsonFlag(c *cobra.Command, asJSON *bool) {
	var format string
	formatFlag(c, &format, "text or json", textOrJSON...)
	c.PreRunE = func(*cobra.Command, []string) error {
		if !slices.Contains(textOrJSON, format) {
			return usageError{fmt.Errorf("no format %q here: take text or json%s", format, study.Meant(format, textOrJSON))}
		}
		*asJSON = format == "json"
		return nil
	}
}

var textOrJSON = []string{"text", "json"}

// alsoFormat gives --format to each verb that has a --json of its own, so that no verb has
// one without the other.
func alsoFormat(c *cobra.Command) {
	for _, verb := range c.Commands() {
		alsoFormat(verb)
	}
	asJSON := c.Flags().Lookup("json")
	if asJSON == nil || c.Flags().Lookup("format") != nil {
		return
	}
	letter := "f"
	if c.Flags().ShorthandLookup(letter) != nil {
		letter = ""
	}
	c.Flags().FuncP("format", letter, "`text` or json", func(format string) error {
		if !slices.Contains(textOrJSON, format) {
			return fmt.Errorf("take text or json%s", study.Meant(format, textOrJSON))
		}
		return asJSON.Value.Set(strconv.FormatBool(format == "json"))
	})
	complete(c, "format", cobra.FixedCompletions(textOrJSON, cobra.ShellCompDirectiveNoFileComp))
}
