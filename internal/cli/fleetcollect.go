package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/fleet"
	"github.com/tarelab/tare/internal/fleet/engine"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/report"
)

func (env *Env) collector(dir string, e engine.Engine) *fleet.Collector {
	return &fleet.Collector{
		Dir: dir, Engine: e,
		Tell: func(s fleet.Status) { fmt.Fprintln(env.Stderr, statusLine(s)) },
		Note: func(text string) { fmt.Fprintln(env.Stderr, "note:", text) },
	}
}

// statusLine is one change, on one line.
func statusLine(s fleet.Status) string {
	line := s.Machine + ": " + string(s.What)
	if s.Attempt > 1 {
		line += fmt.Sprintf(" (attempt %d)", s.Attempt)
	}
	if s.Run != "" {
		line += ", run " + s.Run
	}
	if s.Words != "" && s.Words != "None" {
		line += ": " + oneLine(s.Words)
	}
	return line
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// collect collects a fleet and shows its report, as text or JSON.
func (env *Env) collect(c *cobra.Command, collector *fleet.Collector, dir, name string, asJSON bool) error {
	err := collector.Collect(c.Context())
	if errors.Is(err, context.Canceled) {
		fmt.Fprintf(env.Stderr, "detached: the jobs go on. Collect them with: tare fleet resume %s; end them with: tare fleet cancel %s\n", name, name)
		return err
	}
	if _, finished := fleet.AsResult(err); err != nil && !finished {
		return errors.Join(err, fmt.Errorf("go on with: tare fleet resume %s", name))
	}
	return errors.Join(env.showFleet(dir, name, asJSON), err)
}

// showFleet prints the report of a fleet, where it has a run, and writes its page.
func (env *Env) showFleet(dir, name string, asJSON bool) error {
	if runs, err := os.ReadDir(filepath.Join(dir, "runs")); err != nil || len(runs) == 0 {
		fmt.Fprintf(env.Stderr, "no machine has a run; tare fleet status %s says why\n", name)
		return nil
	}
	paper, err := env.fleetPaper(dir, nil)
	if err != nil {
		return err
	}
	format := report.FormatText
	if asJSON {
		format = report.FormatJSON
	}
	if err := report.WritePaper(env.Stdout, format, paper, env.textOptions()); err != nil {
		return err
	}
	page := filepath.Join(dir, "report.html")
	if err := lab.WriteReport(page, func(w io.Writer) error { return report.WritePaper(w, report.FormatHTML, paper, report.Options{}) }); err != nil {
		return err
	}
	fmt.Fprintf(env.Stderr, "\nreport: %s; again with: tare fleet report %s\n", page, name)
	return nil
}

// knownFleet is the directory and engine of a fleet that this user began with tare fleet
// run. The engine's options have commands and files: a stranger's are refused.
func (env *Env) knownFleet(c *cobra.Command, name string) (dir string, e engine.Engine, err error) {
	if dir, err = env.wholeFleetDir(c, name); err != nil {
		return "", nil, err
	}
	p, err := fleet.ReadPlan(dir)
	if err != nil {
		return "", nil, usageError{err}
	}
	sets, makers := engineOptions()
	if sets[p.Engine] == nil {
		return "", nil, usageError{fmt.Errorf("fleet %s uses the engine %q, which this tare does not have", name, p.Engine)}
	}
	if err := sets[p.Engine].Parse(p.Options); err != nil {
		return "", nil, usageError{fmt.Errorf("fleet %s: options of its engine: %w", name, err)}
	}
	e, err = makers[p.Engine](engine.Site{Tool: program(), Dir: dir})
	return dir, e, err
}

// wholeFleetDir is fleetDir as an absolute path.
func (env *Env) wholeFleetDir(c *cobra.Command, name string) (string, error) {
	dir, err := env.fleetDir(c, name)
	if err != nil {
		return "", err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", fmt.Errorf("fleet: %w", err)
	}
	return dir, nil
}

func (env *Env) fleetResume() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "resume FLEET",
		Short: "Go on with a fleet: collect its jobs, submit what was not",
		Long: `resume goes on after Ctrl-C, a kill or --no-wait, from any shell of this machine. It finds
the fleet's jobs by their names, so that none is submitted twice.`,
		Example: "  tare fleet resume 20261124-060000-weigh",
		Args:    exactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir, e, err := env.knownFleet(c, args[0])
			if err != nil {
				return err
			}
			return env.collect(c, env.collector(dir, e), dir, args[0], asJSON)
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

func (env *Env) fleetCancel() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel FLEET",
		Short: "End a fleet's jobs; what was collected is kept",
		Long: `cancel ends the jobs of a fleet and takes them out of the engine. A job that runs gets
SIGTERM first, and what it has measured by then is kept.`,
		Example: "  tare fleet cancel 20261124-060000-weigh",
		Args:    exactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir, e, err := env.knownFleet(c, args[0])
			if err != nil {
				return err
			}
			return env.collector(dir, e).Cancel(c.Context())
		},
	}
}

// shownStatus is what tare fleet status --json prints.
type shownStatus struct {
	Engine     string         `json:"engine"`
	Wanted     int            `json:"wanted"`     // machines
	Collecting bool           `json:"collecting"` // a process collects the fleet
	Collected  bool           `json:"collected"`  // nothing is left to do for it
	Machines   []fleet.Status `json:"machines"`
}

func (env *Env) fleetStatus() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status FLEET",
		Short: "Show how far each machine of a fleet is",
		Long: `status shows what is known of each machine's job. Where no process collects the fleet,
it asks the engine for what changed since, unless somebody else made the fleet.`,
		Example: "  tare fleet status 20261124-060000-weigh",
		Args:    exactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := env.wholeFleetDir(c, args[0])
			if err != nil {
				return err
			}
			p, all, collecting, err := fleet.Statuses(dir)
			if err != nil {
				return usageError{err}
			}
			if !collecting {
				if err := env.refresh(c, args[0], all); err != nil {
					return err
				}
			}
			if asJSON {
				return env.printJSON(shownStatus{p.Engine, p.Wanted, collecting, p.Collected(all), all})
			}
			t := env.table("machine", "attempt", "state", "since", "records", "why")
			for _, s := range all {
				t.AppendRow([]any{s.Machine, s.Attempt, cmp.Or(string(s.What), "not submitted"), s.At.Local().Format(time.DateTime), s.Records, oneLine(s.Words)})
			}
			fmt.Fprintf(env.Stdout, "%s; %s\n", p.Sentence(), collector(p, all, collecting))
			t.Render()
			return nil
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

// collector says who collects a fleet, if anybody need.
func collector(p fleet.Plan, all []fleet.Status, collecting bool) string {
	switch {
	case collecting:
		return "a process collects it"
	case p.Collected(all):
		return "all is collected (tare fleet report shows it)"
	}
	return "no process collects it (tare fleet resume does)"
}

// refresh puts what the engine says now in the place of what was recorded.
func (env *Env) refresh(c *cobra.Command, name string, all []fleet.Status) error {
	_, e, err := env.knownFleet(c, name)
	if errors.Is(err, fleet.ErrForeign) {
		fmt.Fprintln(env.Stderr, "note: the engine was not asked, so this is what was recorded:", err)
		return nil
	}
	if err != nil {
		return err
	}
	var names []string
	for _, s := range all {
		if s.Job != "" && !s.Over() {
			names = append(names, s.Job)
		}
	}
	states, err := e.States(c.Context(), names)
	if err != nil {
		fmt.Fprintln(env.Stderr, "note: the engine was not asked, so this is what was recorded:", err)
		return nil
	}
	for i, s := range all {
		if state, ok := states[s.Job]; ok && !s.Over() {
			all[i].What, all[i].Words = fleet.What(state.Phase), state.Words()
		}
	}
	return nil
}
