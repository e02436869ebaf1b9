package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/store"
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
			if output == "-" {
				output = ""
			}
			if err := checkOutput("--output", output); err != nil {
				return err
			}
			if len(args) > 1 && (kind == report.FormatBenchstat || kind == report.FormatOpenMetrics) {
				return usageError{fmt.Errorf("--format %s is of one run, and these are %d: write a file for each, which its readers compare", kind, len(args))}
			}
			in, err := env.reportInput(c, args, salvage, share)
			if err != nil {
				return err
			}
			if output != "" {
				return lab.WriteReport(output, func(w io.Writer) error { return report.Write(w, kind, in, report.Options{All: all}) })
			}
			options := env.textOptions()
			options.All = all
			return report.Write(env.Stdout, kind, in, options)
		},
	}
	formatFlag(c, &format, "text, md, csv, json, html, benchstat or openmetrics", "text", "md", "csv", "json", "html", "benchstat", "openmetrics")
	c.Flags().BoolVar(&all, "all", false, "in text, every table in place of the summary")
	c.Flags().BoolVar(&salvage, "salvage", false, "leave damaged records out, with a warning, instead of refusing the run")
	c.Flags().BoolVar(&share, "share", false, "leave out what identifies the machine: host name, boot id, directories of runs")
	c.Flags().StringVarP(&output, "output", "o", "", "write to this file; - is standard output, as without it")
	return c
}

func (env *Env) reportInput(c *cobra.Command, names []string, salvage, share bool) (report.Input, error) {
	runs, err := env.openRuns(c, names)
	if err != nil {
		return report.Input{}, err
	}
	for _, r := range runs {
		if salvage {
			r.Salvage()
		}
	}
	if share {
		hideMachines(runs)
	}
	var in report.Input
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

// hideMachines gives the machines of runs numbers in place of what identifies them.
func hideMachines(runs []*store.Run) {
	numbers := map[string]string{}
	for _, r := range runs {
		host := r.Manifest().Host.Hostname
		if numbers[host] == "" {
			numbers[host] = fmt.Sprintf("machine %d", len(numbers)+1)
		}
		r.Share(numbers[host])
	}
}

// callRun is how a later command can name a run: by its id, which is shorter than its
// directory and means the same run later, which "last" does not; without --state only
// by its directory.
func (env *Env) callRun(c *cobra.Command, name string, run *store.Run) string {
	switch {
	case strings.ContainsRune(name, filepath.Separator):
		return name
	case c.Flags().Changed("state"):
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
	return report.Options{Width: env.width(), Color: terminal(env.Stdout) && env.Getenv("NO_COLOR") == ""}
}

// formatFlag defines --format and --json, which is short for one of its values.
func formatFlag(c *cobra.Command, format *string, usage string, formats ...string) {
	c.Flags().StringVarP(format, "format", "f", "text", usage)
	c.Flags().BoolFunc("json", "the same as --format json", func(string) error { *format = "json"; return nil })
	complete(c, "format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}
