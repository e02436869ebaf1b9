package cli

import (
	"fmt"
	"time"

	"github.com/docker/go-units"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/store"
)

func runsCommand(env *Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "runs",
		Short: "List, name, copy and remove the runs that are kept",
		RunE: func(c *cobra.Command, _ []string) error {
			runs, err := store.List(env.config(c).StateDir)
			if err != nil {
				return err
			}
			if asJSON {
				return env.printJSON(append([]store.Summary{}, runs...)) // [] for none
			}
			if len(runs) == 0 {
				fmt.Fprintln(env.Stdout, "no runs yet; make one with: tare run survey")
				return nil
			}
			env.listRuns(runs)
			return nil
		},
	}
	jsonFlag(c, &asJSON)
	c.AddCommand(removeRunsCommand(env), nameRunCommand(env), exportRunCommand(env), importRunsCommand(env), pruneRunsCommand(env))
	return c
}

func (env *Env) listRuns(runs []store.Summary) {
	t := env.table("run", "name", "made", "age", "size", "trials", "")
	for _, r := range runs {
		made, age := "", ""
		if !r.Created.IsZero() { // its manifest can be read
			made, age = r.Created.Local().Format(time.DateTime), units.HumanDuration(time.Since(r.Created))
		}
		t.AppendRow(table.Row{r.ID, r.Name, made, age, units.BytesSize(float64(r.Bytes)), fmt.Sprintf("%d of %d", r.Done, r.Trials), runState(r)})
	}
	t.Render()
}

// runState says what can be done with a run.
func runState(r store.Summary) string {
	switch {
	case r.Problem != "":
		return "unreadable: " + r.Problem
	case r.Live:
		return "being measured"
	case r.Ended == store.EndBudget:
		return "complete: its budget was used"
	case r.Ended != "":
		return "complete: it is as precise as was asked for"
	case r.Done < r.Trials:
		return "go on with: tare resume " + r.ID
	}
	return "complete"
}

// table is a plain table on standard output. What stands in its cells cannot command
// the terminal: much of it programs have said.
func (env *Env) table(header ...any) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(visible{env.Stdout})
	t.SetStyle(table.StyleDefault)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Format.Header = 0
	t.SuppressTrailingSpaces()
	t.AppendHeader(header)
	// Prose is wrapped within its column, so that the table keeps its shape.
	columns := make([]table.ColumnConfig, len(header))
	for i := range columns {
		columns[i] = table.ColumnConfig{Number: i + 1, WidthMax: max(36, env.width()*2/5), WidthMaxEnforcer: text.WrapSoft}
	}
	t.SetColumnConfigs(columns)
	return t
}

// completeRuns offers the runs that are kept, and the last one by its name.
func (env *Env) completeRuns(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	names := []string{"last"}
	runs, err := store.List(env.config(c).StateDir)
	if err != nil {
		return names, cobra.ShellCompDirectiveDefault
	}
	for _, r := range runs {
		names = append(names, r.ID)
		if r.Name != "" {
			names = append(names, r.Name)
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}
