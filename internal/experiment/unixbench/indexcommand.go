package unixbench

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/store"
)

// commands are tare compare and tare index.
func commands(l experiment.Laboratory) []*cobra.Command {
	return []*cobra.Command{compareCommand(l), indexCommand(l)}
}

// indexFlags are the options of tare index.
type indexFlags struct {
	indexOptions
	seconds float64
	json    bool
}

func indexCommand(l experiment.Laboratory) *cobra.Command {
	var f indexFlags
	c := &cobra.Command{
		Use:     "index",
		GroupID: experiment.GroupMeasure,
		Short:   "Show the Unix index of this machine, as UnixBench prints it",
		Long: `index runs the tests of UnixBench 5.1.3, written afresh, on the host or on
another target: with one copy, then with one copy per CPU. Two scores stand side
by side: UnixBench's own, which leaves out the worst third of the passes and
times whetstone by CPU time, to be compared with published ones; and that of all
passes by wall time, with its interval. docs/unix-index.md defines both.

The programs are dynamic, with this machine's C library, shell and programs, as in a
UnixBench that a user builds: that is the scale of published scores. --static runs
those that are the same bits on every machine. --unixbench DIR runs your own UnixBench
besides, unchanged, in the same target, and prints how far ours are from it; DIR is
the directory in which you ran make. Its file-copy takes 15 s more, its whetstone 12.

Passes of the tests interleave. UnixBench's own windows are 10, 30 and 60 s and its
passes 10 and 3: shorter ones scatter more, and whetstone is lower by up to a tenth.`,
		Example: `  tare index
  tare index --on runc --copies 4
  tare index --unixbench ~/byte-unixbench/UnixBench --passes 8
  tare index --workloads dhrystone2,whetstone --seconds 10 --passes 10`,
		Args: cobra.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error { return measureIndex(c, l, &f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.Target, "on", "host", "the target")
	flags.StringSliceVar(&f.Tests, "workloads", nil, "workloads (tests), by name (default: all)")
	flags.StringSliceVar(&f.Tests, "tests", nil, "")
	flags.MarkDeprecated("tests", "it is now called --workloads") //nolint:errcheck // fails for a flag that is not defined
	flags.IntVar(&f.Copies, "copies", 0, "copies at once in the second table; 1 leaves it out (default: one per CPU)")
	flags.IntVar(&f.Passes, "passes", 3, "passes of each test")
	flags.Float64Var(&f.seconds, "seconds", 2, "window of a pass, in seconds")
	flags.BoolVar(&f.Static, "static", false, "static programs, the same bits on every machine; not the scale of published scores")
	flags.StringVar(&f.UnixBench, "unixbench", "", "directory of your own UnixBench, built by make: run its programs, too, and show both side by side")
	flags.BoolVar(&f.json, "json", false, "print as JSON")
	return c
}

// options checks what the flags say.
func (f *indexFlags) options(c *cobra.Command) (indexOptions, error) {
	o := f.indexOptions
	o.Window = time.Duration(f.seconds * float64(time.Second))
	switch {
	case c.Flags().Changed("copies") && f.Copies < 1:
		return o, fmt.Errorf("--copies %d: must be at least 1", f.Copies)
	case f.Passes < 1:
		return o, fmt.Errorf("--passes %d: must be at least 1", f.Passes)
	case c.Flags().Changed("unixbench") && f.UnixBench == "":
		return o, errNoDirectory
	case !(f.seconds >= 0.01 && f.seconds <= 3600):
		return o, fmt.Errorf("--seconds %g: must be between 0.01 and 3600", f.seconds)
	}
	return o, nil
}

func measureIndex(c *cobra.Command, l experiment.Laboratory, f *indexFlags) error {
	o, err := f.options(c)
	if err != nil {
		return &lab.InputError{Err: err}
	}
	st, err := indexStudy(o)
	if err != nil {
		return &lab.InputError{Err: err}
	}
	laboratory, err := lab.Open(c.Context(), l.Config(c))
	if err != nil {
		return err
	}
	plan, err := laboratory.Plan(c.Context(), st, lab.Options{})
	if err != nil {
		return errors.Join(err, laboratory.Close())
	}
	return l.CarryOut(c, laboratory, plan, func(run *store.Run) (error, error) { return showIndex(l, run, f.json) })
}

// shownIndex is what --json prints.
type shownIndex struct {
	Run     string        `json:"run"`
	Host    hostinfo.Host `json:"host"`
	Tables  []indexTable  `json:"tables"`
	Refused string        `json:"refused,omitempty"` // what noise has spoilt
	// Whetstone is the variant that ran: "kept" or "as-compiled".
	Whetstone string   `json:"whetstone,omitempty"`
	Programs  programs `json:"programs"`
	Warnings  []string `json:"warnings,omitempty"`
}

// showIndex prints the tables and writes the run's page. Its first result is
// the error that stands for failed trials.
func showIndex(l experiment.Laboratory, run *store.Run, asJSON bool) (verdict, err error) {
	in, err := l.Report(run)
	if err != nil {
		return nil, err
	}
	index := indexIn(in.Sections)
	if index == nil {
		return nil, fmt.Errorf("run %s gave no index: %s", run.Manifest().ID, strings.Join(analysis.Texts(in.Claims.Warnings), "; "))
	}
	page := filepath.Join(run.Dir(), "report.html")
	if err := lab.WriteReport(page, func(w io.Writer) error { return report.HTML(w, in) }); err != nil {
		return nil, err
	}
	m := run.Manifest()
	if asJSON {
		err = l.JSON(shownIndex{Run: m.ID, Host: m.Host, Tables: index.Tables, Refused: index.Refused, Whetstone: index.Whetstone, Programs: index.Programs, Warnings: analysis.Texts(in.Claims.Warnings)})
	} else {
		printIndex(l.Stdout(), m.Host, index)
		for _, w := range analysis.Texts(in.Claims.Warnings) {
			fmt.Fprintln(l.Stderr(), "warning:", w)
		}
	}
	fmt.Fprintf(l.Stderr(), "\nreport: %s\n", page)
	return lab.Failures(in.Claims), err
}

// indexIn is the index that a report has, nil for none.
func indexIn(sections []finding.Section) *indexClaims {
	for _, s := range sections {
		if c, ok := s.Data.(*indexClaims); ok {
			return c
		}
	}
	return nil
}

// printIndex prints the tables with the machine that they are of.
func printIndex(w io.Writer, h hostinfo.Host, index *indexClaims) {
	fmt.Fprintf(w, "%s, %d CPUs, %s, kernel %s\n", h.CPU, h.CPUs, h.OS, h.Kernel)
	if index.Refused != "" {
		fmt.Fprintf(w, "\n%s\n", index.Refused)
	}
	for _, t := range index.Tables {
		printTable(w, t)
		printNextTo(w, t)
	}
	if note := index.WhetstoneNote(); note != "" {
		fmt.Fprintf(w, "\n%s\n", note)
	}
	fmt.Fprintf(w, "\n%s\n", index.Programs.Note())
}

// printNextTo prints the user's own UnixBench next to a table.
func printNextTo(w io.Writer, t indexTable) {
	g, ran := indexNextTo(t)
	if !ran {
		return
	}
	fmt.Fprintf(w, "\n%s\n", g.Title)
	for _, row := range append([][]string{g.Head}, g.Rows...) {
		fmt.Fprintf(w, "%-22s %5s %14s %10s   %-22s  %s\n", row[0], row[1], row[2], row[3], row[4], row[5])
	}
	fmt.Fprintln(w, nextToFinding(t))
}

// printTable prints a table in UnixBench's layout, with our own score beside.
func printTable(w io.Writer, t indexTable) {
	fmt.Fprintf(w, "\n%s\n%-22s %5s %12s %14s %10s   %s\n", indexPlace(t),
		"System Benchmarks", "", "BASELINE", "RESULT", "INDEX", "all passes, 95 % interval")
	for _, r := range t.Rows {
		fmt.Fprintf(w, "%-22s %5s %12.1f %14.1f %10.1f   %s\n", r.label(), r.Unit, r.Baseline, r.Result, r.UnixBench, allPasses(r.passes))
	}
	if t.UnixBench == nil {
		fmt.Fprintln(w, "no test gave a score")
		return
	}
	fmt.Fprintf(w, "%67s   %8s\n%-22s %44.1f   %8.1f\n", "========", "========", "Index Score"+refusedMark(t.Refused), t.UnixBench.Value, t.All.Value)
	fmt.Fprintf(w, "INDEX as UnixBench 5.1.3 has it: %s; over %s\n", t.LeftOut(), strings.Join(t.UnixBench.Tests, ", "))
	if t.Refused != "" {
		fmt.Fprintln(w, refusedLegend)
	}
	if slices.ContainsFunc(t.Rows, func(r indexRow) bool { return r.CPUTime }) {
		fmt.Fprintln(w, "(*) by CPU time, as UnixBench 5.1.3 times it; all passes by wall time")
	}
}

func allPasses(p passes) string {
	if p.Passes < 2 {
		return fmt.Sprintf("%8.1f", p.All)
	}
	return fmt.Sprintf("%8.1f  %.1f to %.1f", p.All, p.Interval.Low, p.Interval.High)
}
