package cli

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/store"
)

// indexFlags are the options of tare index.
type indexFlags struct {
	lab.IndexOptions
	seconds float64
	json    bool
}

func indexCommand(env *Env) *cobra.Command {
	var f indexFlags
	c := &cobra.Command{
		Use:   "index",
		Short: "Show the Unix index of this machine, as UnixBench prints it",
		Long: `index runs the tests of UnixBench 5.1.3, written afresh, on the host or on
another target: with one copy, then with one copy per CPU. Two scores stand side
by side: UnixBench's own, which leaves out the worst third of the passes and
times whetstone by CPU time, to be compared with published ones; and that of all
passes by wall time, with its interval. docs/unix-index.md defines both. Passes
of the tests interleave. UnixBench's own windows are 10, 30 and 60 s and its
passes 10 and 3: shorter ones scatter more, and whetstone is lower by up to a tenth.`,
		Example: `  tare index
  tare index --on runc --copies 4
  tare index --tests dhrystone2,whetstone --seconds 10 --passes 10`,
		Args: exactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error { return env.index(c, &f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.Target, "on", "host", "the target")
	flags.StringSliceVar(&f.Tests, "tests", nil, "tests, by name (default: all)")
	flags.IntVar(&f.Copies, "copies", 0, "copies at once in the second table; 1 leaves it out (default: one per CPU)")
	flags.IntVar(&f.Passes, "passes", 3, "passes of each test")
	flags.Float64Var(&f.seconds, "seconds", 2, "window of a pass, in seconds")
	flags.BoolVar(&f.json, "json", false, "print as JSON")
	return c
}

// options checks what the flags say.
func (f *indexFlags) options(c *cobra.Command) (lab.IndexOptions, error) {
	o := f.IndexOptions
	o.Window = time.Duration(f.seconds * float64(time.Second))
	switch {
	case c.Flags().Changed("copies") && f.Copies < 1:
		return o, fmt.Errorf("--copies %d: must be at least 1", f.Copies)
	case f.Passes < 1:
		return o, fmt.Errorf("--passes %d: must be at least 1", f.Passes)
	case !(f.seconds >= 0.01 && f.seconds <= 3600):
		return o, fmt.Errorf("--seconds %g: must be between 0.01 and 3600", f.seconds)
	}
	return o, nil
}

func (env *Env) index(c *cobra.Command, f *indexFlags) error {
	o, err := f.options(c)
	if err != nil {
		return usageError{err}
	}
	st, err := lab.IndexStudy(o)
	if err != nil {
		return usageError{err}
	}
	laboratory, err := lab.Open(c.Context(), env.config(c))
	if err != nil {
		return err
	}
	plan, err := laboratory.Plan(c.Context(), st, lab.Options{})
	if err != nil {
		return errors.Join(err, laboratory.Close())
	}
	return env.carryOut(c, laboratory, plan, func(run *store.Run) (error, error) { return env.showIndex(run, f.json) })
}

// shownIndex is what --json prints.
type shownIndex struct {
	Run     string                    `json:"run"`
	Host    hostinfo.Host             `json:"host"`
	Tables  []analysis.UnixIndexTable `json:"tables"`
	Refused string                    `json:"refused,omitempty"` // what noise has spoilt
	// Whetstone is the variant that ran: "kept" or "as-compiled".
	Whetstone string   `json:"whetstone,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
}

// showIndex prints the tables and writes the run's page. Its first result is
// the error that stands for failed trials.
func (env *Env) showIndex(run *store.Run, asJSON bool) (verdict, err error) {
	in, err := env.Experiments.Report(run)
	if err != nil {
		return nil, err
	}
	if in.Claims.Index == nil {
		return nil, fmt.Errorf("run %s gave no index: %s", run.Manifest().ID, strings.Join(in.Claims.Warnings, "; "))
	}
	tables := in.Claims.Index.Tables
	page := filepath.Join(run.Dir(), "report.html")
	if err := lab.WriteReport(page, func(w io.Writer) error { return report.HTML(w, in) }); err != nil {
		return nil, err
	}
	m := run.Manifest()
	if asJSON {
		err = env.printJSON(shownIndex{Run: m.ID, Host: m.Host, Tables: tables, Refused: in.Claims.Index.Refused, Whetstone: in.Claims.Index.Whetstone, Warnings: in.Claims.Warnings})
	} else {
		fmt.Fprintf(env.Stdout, "%s, %d CPUs, %s, kernel %s\n", m.Host.CPU, m.Host.CPUs, m.Host.OS, m.Host.Kernel)
		if refused := in.Claims.Index.Refused; refused != "" {
			fmt.Fprintf(env.Stdout, "\n%s\n", refused)
		}
		for _, t := range tables {
			env.printIndex(t)
		}
		if note := in.Claims.Index.WhetstoneNote(); note != "" {
			fmt.Fprintf(env.Stdout, "\n%s\n", note)
		}
		for _, w := range in.Claims.Warnings {
			fmt.Fprintln(env.Stderr, "warning:", w)
		}
	}
	fmt.Fprintf(env.Stderr, "\nreport: %s\n", page)
	return lab.Failures(in.Claims), err
}

// printIndex prints a table in UnixBench's layout, with our own score beside.
func (env *Env) printIndex(t analysis.UnixIndexTable) {
	copies := "1 copy"
	if t.Copies != 1 {
		copies = fmt.Sprintf("%d copies", t.Copies)
	}
	w := env.Stdout
	fmt.Fprintf(w, "\n%s on %s\n%-22s %5s %12s %14s %10s   %s\n", copies, t.Target,
		"System Benchmarks", "", "BASELINE", "RESULT", "INDEX", "all passes, 95 % interval")
	byCPU := false
	for _, r := range t.Rows {
		name := r.Test
		if r.CPUTime {
			name, byCPU = name+" (*)", true
		}
		name += report.RefusedMark(r.Refused)
		fmt.Fprintf(w, "%-22s %5s %12.1f %14.1f %10.1f   %s\n", name, r.Unit, r.Baseline, r.Result, r.UnixBench, allPasses(r.UnixPasses))
	}
	if t.UnixBench == nil {
		fmt.Fprintln(w, "no test gave a score")
		return
	}
	fmt.Fprintf(w, "%67s   %8s\n%-22s %44.1f   %8.1f\n", "========", "========", "Index Score"+report.RefusedMark(t.Refused), t.UnixBench.Value, t.All.Value)
	fmt.Fprintf(w, "INDEX as UnixBench 5.1.3 has it: %s; over %s\n", t.LeftOut(), strings.Join(t.UnixBench.Tests, ", "))
	if t.Refused != "" {
		fmt.Fprintln(w, report.RefusedLegend)
	}
	if byCPU {
		fmt.Fprintln(w, "(*) by CPU time, as UnixBench 5.1.3 times it; all passes by wall time")
	}
}

func allPasses(p analysis.UnixPasses) string {
	if p.Passes < 2 {
		return fmt.Sprintf("%8.1f", p.All)
	}
	return fmt.Sprintf("%8.1f  %.1f to %.1f", p.All, p.Interval.Low, p.Interval.High)
}
