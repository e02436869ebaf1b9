package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/fleet"
	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/sys"
)

func fleetCommand(env *Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "fleet",
		Short: "Run a study on many machines, and report them together",
	}
	c.AddCommand(env.fleetRun(), env.fleetStatus(), env.fleetResume(), env.fleetCancel(), env.fleetAdd(), env.fleetReport())
	return c
}

func (env *Env) fleetAdd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "add FLEET FILE|RUN...",
		Short: "Add runs of one study, from files or the store",
		Long: `add takes runs into a fleet, and makes the fleet if it is new. FLEET is a name, or a
directory with a slash in its path. FILE is what tare run --stream or tare runs export
wrote, - for standard input; RUN is a run of the store. Each is checked whole before it
is added. Runs of another study than the fleet's are refused.`,
		Example: `  ssh node1 tare weigh --on host,runc --stream -- true | tare fleet add lab -
  tare fleet add lab node2.out node3.out
  tare fleet add ./lab last`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usageError{fmt.Errorf("add takes a fleet and a file or run\nusage: %s", c.UseLine())}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := env.fleetDir(c, args[0])
			if err != nil {
				return err
			}
			return env.printEach(asJSON, args[1:], func(name string) (string, error) {
				run, err := env.addToFleet(c, dir, name)
				if errors.Is(err, store.ErrThere) {
					fmt.Fprintf(env.Stderr, "%s: is in the fleet already\n", name)
					return "", nil
				}
				if err != nil {
					return "", refusedBy(fmt.Errorf("%s: %w", name, err))
				}
				return run, nil
			})
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

// fleetName is a fleet's name in the state directory.
var fleetName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// fleetDir is the directory of a fleet.
func (env *Env) fleetDir(c *cobra.Command, name string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) || name == "." || name == ".." {
		return filepath.Clean(name), nil
	}
	if !fleetName.MatchString(name) {
		return "", usageError{fmt.Errorf("fleet %q: a name has letters, digits, dots and dashes; a directory is named with a slash", name)}
	}
	return filepath.Join(env.config(c).StateDir, "fleets", name), nil
}

// addToFleet adds a file, or else a run of the store.
func (env *Env) addToFleet(c *cobra.Command, dir, name string) (string, error) {
	if name == "-" {
		return fleet.Add(dir, os.Stdin)
	}
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
		f, err := sys.OpenGiven(name, limit.RunArchive)
		if err != nil {
			return "", err
		}
		defer func() { _ = f.Close() }() // only read
		return fleet.Add(dir, f)
	}
	runs, err := env.openRuns(c, []string{name})
	if err != nil {
		return "", err
	}
	added, err := fleet.AddRun(dir, runs[0])
	return added, errors.Join(err, runs[0].Close())
}

// fleetPaper is the report of a fleet; facts are what groups machines, nil for the default.
func (env *Env) fleetPaper(dir string, facts []string) (report.Paper, error) {
	found, err := fleet.Read(dir, facts)
	paper := report.Paper{Title: "Fleet " + filepath.Base(dir) + ": " + found.Title, Question: found.Question, About: found.About(), Warnings: found.Warnings,
		Sections: found.Sections(), Rows: found.Rows(), Data: found, Tool: env.Version}
	plan, machines, _, planned := fleet.Statuses(dir)
	if err != nil || errors.Is(planned, fleet.ErrNoPlan) {
		return paper, err
	}
	paper.About = append(paper.About, plan.Sentence())
	for _, m := range machines {
		if m.Run == "" {
			paper.Warnings = append(paper.Warnings, fmt.Sprintf("%s has no run: %s", m.Machine, cmp.Or(oneLine(strings.TrimSuffix(string(m.What)+": "+m.Words, ": ")), "its job was not submitted")))
		}
		if len(m.Others) > 0 {
			paper.Warnings = append(paper.Warnings, fmt.Sprintf("%s had other work when the job ended: %s", m.Machine, oneLine(strings.Join(m.Others, ", "))))
		}
	}
	return paper, planned
}

func (env *Env) fleetReport() *cobra.Command {
	var format, output, by string
	c := &cobra.Command{
		Use:   "report FLEET",
		Short: "Show what the machines of a fleet say together",
		Long: `report shows, for each cell, the mean over machines, where the next machine lies, how
much machines scatter, and which machines are unlike the others. The machine is the
unit, and a mean needs three. docs/fleet.md has the rules and the verdicts.`,
		Example: `  tare fleet report lab
  tare fleet report lab --by cpu,kernel
  tare fleet report lab --format html -o lab.html`,
		Args: exactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			kind, err := report.ParseFormat(format)
			if err != nil {
				return usageError{err}
			}
			if !slices.Contains(report.PaperFormats(), kind) {
				return usageError{fmt.Errorf("--format %s is of one run: take text, md, csv, json or html", kind)}
			}
			if err := checkOutput("--output", output); err != nil {
				return err
			}
			dir, err := env.fleetDir(c, args[0])
			if err != nil {
				return err
			}
			var facts []string
			if by != "" {
				facts = strings.Split(by, ",")
			}
			paper, err := env.fleetPaper(dir, facts)
			if err != nil {
				return usageError{err}
			}
			return env.writeTo(output, func(w io.Writer, o report.Options) error { return report.WritePaper(w, kind, paper, o) })
		},
	}
	formatFlag(c, &format, "text, md, csv, json or html", "text", "md", "csv", "json", "html")
	outputFlag(c, &output)
	c.Flags().StringVar(&by, "by", "", "facts to group machines by (default "+strings.Join(fleet.GroupFacts(), ",")+")")
	return c
}
