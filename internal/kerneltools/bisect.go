package kerneltools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/kerneltools/bisect"
	"github.com/tarelab/tare/internal/kerneltools/steplog"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/vmm"
)

// bisectFlags are the options of tare bisect.
type bisectFlags struct {
	good, bad, on, workload, metric, output string
	source                                  string
	between                                 []string
	quick, json                             bool
	blocks                                  int
	budget                                  time.Duration
}

func (v verbs) bisectCommand() *cobra.Command {
	var f bisectFlags
	c := &cobra.Command{
		Use:     "bisect STUDY --good KERNEL --bad KERNEL",
		GroupID: experiment.GroupKernels,
		Short:   "Find the kernel, or the option of one, from which on a number is another",
		Long: `bisect narrows a difference between two kernels to two neighbours in a list that leads
from one to the other. A kernel is a release of Debian, as debian/6.1, or a file. The list
is --between: kernels in their order, or directories of images, which are taken by their
versions. Between two releases it is by default Debian's releases that can be reached.

The two ends are measured first, in guests of one machine with the same files. Where they
do not differ certainly, bisect says how large a difference can be, and ends. Then the list
is halved: each step is one run of the good end, a candidate and the bad end, interleaved.
The candidate resembles the end on whose side of the middle its whole interval lies. Where
the interval contains the middle, the step is open; a kernel that does not boot is skipped;
another one near it is then taken. The level of all intervals is corrected for the number
of steps. Nothing is concluded of kernels that were not measured: where a change comes and
goes along the list, bisect finds one place where it comes.

Two configurations (.config files) of one kernel's source are ends as well. The options in
which they differ make the list: each configuration is the good one with the first of these
options set as in the bad one, settled by the source's own Kconfig. Options that depend on
each other make one step. A kernel is built only when its step comes. One that does not
build is skipped. The kernel's build runs on this machine.

Each step is a run, for tare report. bisect.log in the output directory has the steps with
their reasons: after Ctrl-C, a kill or the end of the budget the same command goes on where
it ended. The exit code is 7 where no place was found.`,
		Example: `  tare bisect kernel-history --workload syscalls --good debian/5.10 --bad debian/6.12
  tare bisect kernel-history --workload cgroup-cycles --metric mkdir-p50 --good debian/5.10 --bad debian/6.12 --between debian/6.1
  tare bisect ./mine.yaml --good old/bzImage --bad new/bzImage --between ./images --budget 2h -o regression
  tare bisect kernel-history --workload mount-tmpfs --good fast.config --bad slow.config --source linux-source-6.1`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return v.bisect(c, args[0], &f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.good, "good", "", "the kernel, or the configuration, from which the list begins")
	flags.StringVar(&f.bad, "bad", "", "the kernel, or the configuration, at which it ends")
	flags.StringSliceVar(&f.between, "between", nil, "kernels between them, in their order, and directories of images")
	flags.StringVar(&f.source, "source", "", "of two configurations: the kernel's source, a directory or a package (default linux-source-VERSION, of their version)")
	flags.StringVar(&f.on, "on", vmm.QEMUMicroVM, "the virtual machine")
	flags.StringVar(&f.workload, "workload", "", "of the study, where it has several")
	flags.StringVar(&f.metric, "metric", "", "what is compared (default what the workload is judged by)")
	flags.BoolVar(&f.quick, "quick", false, "the study's variant quick")
	flags.IntVar(&f.blocks, "blocks", 0, "of each step (default: the study's, and at least what the level of the steps needs)")
	flags.DurationVar(&f.budget, "budget", 4*time.Hour, "no step begins that would not end in this time")
	flags.StringVarP(&f.output, "output", "o", "bisect", "directory for the log")
	flags.BoolVar(&f.json, "json", false, "print as JSON")
	for _, name := range []string{"good", "bad"} {
		c.MarkFlagRequired(name) //nolint:errcheck // fails for a flag that is not defined
	}
	return c
}

func (v verbs) bisect(c *cobra.Command, name string, f *bisectFlags) (err error) {
	if err := notStandardOutput(f.output, "the log has a directory"); err != nil {
		return err
	}
	st, err := v.bisectStudy(name, f)
	if err != nil {
		return err
	}
	chain, of, err := v.bisectChain(c, f)
	if err != nil {
		return err
	}
	b := bisect.Bisection{Question: bisect.Question{Machine: f.on, Workload: st.Workloads[0].Name, Metric: f.metric, Looks: bisect.Looks(len(chain.Names))},
		Chain: chain, Budget: f.budget, Now: time.Now}
	if st.Blocks, err = f.blocksOf(st, b.Looks); err != nil {
		return &lab.InputError{Err: err}
	}
	bench := &bisectBench{v, c, st, &b.Question}
	b.Bench = bench
	if b.Log, err = openBisection(f.output, bench, chain.Names, of); err != nil {
		return err
	}
	found, err := b.Run(c.Context())
	if err := errors.Join(err, b.Log.Close()); err != nil {
		if errors.Is(err, context.Canceled) {
			fmt.Fprintln(v.Stderr(), "interrupted; the same command goes on")
		}
		return err
	}
	if f.json {
		err = v.JSON(found)
	} else {
		v.printBisection(found, filepath.Join(f.output, bisect.LogName))
	}
	if err == nil && (found.Ended != "" || found.Change == nil || !found.Change.Verdict.Shown()) {
		return &lab.OpenError{What: "bisect: no place was found from which on " + st.Workloads[0].Name + " certainly differs"}
	}
	return err
}

// bisectChain is the list of kernels or of configurations, with what stands in the log's key
// for what their names mean.
func (v verbs) bisectChain(c *cobra.Command, f *bisectFlags) (bisect.Chain, any, error) {
	good, bad, err := f.configs()
	if err != nil {
		return bisect.Chain{}, nil, &lab.InputError{Err: err}
	}
	if good != nil {
		return v.configChain(c, f, good, bad)
	}
	if f.source != "" {
		return bisect.Chain{}, nil, &lab.InputError{Err: errors.New("--source goes with two configurations, and --good and --bad are kernels")}
	}
	kernels, err := bisect.Kernels(c.Context(), f.good, f.bad, f.between, func(ctx context.Context) ([]string, error) {
		fmt.Fprintln(v.Stderr(), "asking Debian's suites for their kernels")
		return vmm.Releases(ctx, filepath.Join(v.Config(c).CacheDir, "debian"))
	})
	if err != nil {
		return bisect.Chain{}, nil, wrongKernels(err)
	}
	digests, err := digestsOf(kernels)
	if err != nil {
		return bisect.Chain{}, nil, &lab.InputError{Err: err}
	}
	fmt.Fprintf(v.Stderr(), "%d kernels: %s\n", len(kernels), strings.Join(shownAll(kernels), ", "))
	return bisect.Chain{Names: kernels}, digests, nil
}

// digestsOf are the digests of kernels that are files, which may be built anew between two
// calls.
func digestsOf(kernels []string) (map[string]string, error) {
	digests := map[string]string{}
	for _, name := range kernels {
		if driver.IsRelease(name) {
			continue
		}
		k, err := vmm.Inspect(name)
		if err != nil {
			return nil, err
		}
		digests[name] = k.Digest
	}
	return digests, nil
}

// wrongKernels gives errors of the list their exit code.
func wrongKernels(err error) error {
	if none := new(vmm.NoKernelError); errors.As(err, &none) {
		return &lab.LackError{What: err.Error()}
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	return &lab.InputError{Err: err}
}

// bisectStudy is the study with the one workload that is bisected, and nothing besides.
func (v verbs) bisectStudy(name string, f *bisectFlags) (study.Study, error) {
	st, err := v.Study(name)
	if err != nil {
		return st, err
	}
	if f.quick {
		if st, err = st.Vary("quick"); err != nil {
			return st, &lab.InputError{Err: err}
		}
	}
	if f.workload != "" {
		if st, err = st.Select([]string{f.workload}); err != nil {
			return st, &lab.InputError{Err: err}
		}
	}
	st.Workloads = slices.Clone(st.Measured())
	if len(st.Workloads) != 1 {
		var names []string
		for _, w := range st.Workloads {
			names = append(names, w.Name)
		}
		return st, &lab.InputError{Err: fmt.Errorf("study %s has %d workloads: name one with --workload (%s)", st.ID, len(names), strings.Join(names, ", "))}
	}
	w, no := &st.Workloads[0], false
	w.Targets, w.Except, w.Blocks = nil, nil, 0
	st.Optional, st.Beside, st.Kernels, st.Paths, st.OptionalPaths = nil, nil, nil, nil, nil
	st.Probes, st.OptionalProbes, st.Interventions, st.Limits, st.Variants = nil, nil, nil, nil, nil
	st.AA, st.Cold, st.Precision, st.Budget, st.Published = &no, &no, 0, 0, ""
	return st.WithDefaults().Detached(), nil
}

// blocksOf is how many blocks a step has: at least those that have an interval at the
// level of all steps together.
func (f *bisectFlags) blocksOf(st study.Study, looks int) (int, error) {
	least := stats.BlocksFor(1-st.Alpha/float64(looks), false)
	switch {
	case f.blocks == 0:
		return max(least, st.Blocks), nil
	case f.blocks < least:
		return 0, fmt.Errorf("--blocks %d: at the level of %d steps an interval takes at least %d", f.blocks, looks, least)
	}
	return f.blocks, nil
}

// openBisection opens the log in a directory, which it makes. of stands for what the names
// of the kernels mean.
func openBisection(dir string, b *bisectBench, kernels []string, of any) (*steplog.Log[bisect.Step], error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, &lab.InputError{Err: fmt.Errorf("--output: %w", err)}
	}
	text, err := json.Marshal([]any{b.study, b.question, kernels, of})
	if err != nil {
		return nil, fmt.Errorf("log of the search: %w", err)
	}
	sum := sha256.Sum256(text)
	l, err := steplog.Open[bisect.Step](filepath.Join(dir, bisect.LogName), hex.EncodeToString(sum[:8]), "study, workload, metric, blocks, machine or kernels")
	var other *steplog.OtherError
	var busy *steplog.BusyError
	switch {
	case errors.As(err, &other):
		return nil, &lab.InputError{Err: err}
	case errors.As(err, &busy):
		return nil, &lab.LackError{What: err.Error()}
	}
	return l, err
}

// bisectBench measures the steps of a bisection as runs.
type bisectBench struct {
	verbs
	c        *cobra.Command
	study    study.Study
	question *bisect.Question
}

// Tell implements bisect.Bench.
func (b *bisectBench) Tell(at, of int, kernels []string) {
	fmt.Fprintf(b.Stderr(), "\nstep %d of about %d: %s\n", at, max(at, of), strings.Join(shownAll(kernels), ", "))
}

// Told implements bisect.Bench.
func (b *bisectBench) Told(s bisect.Step) {
	b.ClearLine()
	fmt.Fprintf(b.Stderr(), "%s: %s\n", stepAnswer(s), s.Why)
}

// Measure implements bisect.Bench.
func (b *bisectBench) Measure(ctx context.Context, kernels []string, earlier string, left time.Duration, begun func(string) error) (run *store.Run, err error) {
	laboratory, err := lab.Open(ctx, b.Config(b.c))
	if err != nil {
		return nil, err
	}
	plan, err := b.plan(ctx, laboratory, kernels, earlier)
	if err != nil {
		return nil, errors.Join(err, laboratory.Close())
	}
	if err := b.admit(plan, kernels, left); err != nil {
		if failed := laboratory.Close(); failed != nil {
			return nil, failed
		}
		return nil, err
	}
	if err := begun(plan.Manifest.ID); err != nil {
		return nil, errors.Join(err, plan.Run.Close(), laboratory.Close())
	}
	err = b.CarryOut(b.c, laboratory, plan, func(r *store.Run) (error, error) {
		run = r
		return nil, nil
	})
	return run, err
}

// plan goes on with an earlier run where that is possible, or plans one anew.
func (b *bisectBench) plan(ctx context.Context, laboratory *lab.Lab, kernels []string, earlier string) (*lab.Plan, error) {
	if earlier != "" {
		run, err := b.Run(b.c, earlier)
		var plan *lab.Plan
		if err == nil {
			plan, err = laboratory.Resume(ctx, run, false)
		}
		if err == nil || ctx.Err() != nil {
			return plan, err
		}
		fmt.Fprintf(b.Stderr(), "run %s cannot go on, so the step begins anew: %v\n", earlier, err)
	}
	st := b.study
	st.Targets, st.Control = nil, b.question.Machine+driver.ProgramSign+kernels[0]
	for _, k := range kernels {
		st.Targets = append(st.Targets, b.question.Machine+driver.ProgramSign+k)
	}
	if len(kernels) > 2 { // one that does not boot is skipped
		st.Optional = st.Targets[1 : len(st.Targets)-1]
	}
	return laboratory.Plan(ctx, st, lab.Options{})
}

// admit refuses a plan that is too long or does not measure what is asked for, and skips a
// candidate that cannot be measured. The run is removed, where nothing of it was measured.
func (b *bisectBench) admit(plan *lab.Plan, kernels []string, left time.Duration) error {
	metrics := plan.Manifest.Metrics[b.question.Workload]
	var names []string
	for _, m := range metrics {
		names = append(names, m.Name)
	}
	if b.question.Metric == "" && len(names) > 0 {
		b.question.Metric = names[0]
	}
	cells := 0
	for _, c := range plan.Manifest.Cells {
		if c.Target == plan.Manifest.Study.Control && c.Workload == b.question.Workload && !c.AA && c.Probe == "" {
			cells++
		}
	}
	missing := "" // why the candidate is left out
	if len(kernels) > 2 {
		missing = plan.Manifest.LeftOut[b.question.Machine+driver.ProgramSign+kernels[1]]
	}
	var err error
	switch {
	case cells > 1:
		err = &lab.InputError{Err: fmt.Errorf("workload %s has %d cells in study %s: take one that has one number of instances and one environment", b.question.Workload, cells, b.study.ID)}
	case missing != "":
		err = &bisect.SkipError{Why: missing}
	case !slices.Contains(names, b.question.Metric):
		err = &lab.InputError{Err: fmt.Errorf("workload %s has no metric %q: it has %s", b.question.Workload, b.question.Metric, strings.Join(names, ", "))}
	case plan.Estimate > left:
		err = &bisect.BudgetError{Needs: plan.Estimate, Left: left}
	default:
		return nil
	}
	failed := plan.Run.Close()
	if len(plan.Run.Done()) == 0 {
		failed = errors.Join(failed, store.Remove(plan.Run.Dir()))
	}
	if failed != nil {
		return failed
	}
	return err
}

func shownAll(kernels []string) (all []string) {
	for _, k := range kernels {
		all = append(all, bisect.Shown(k))
	}
	return all
}

// stepAnswer is what a step gave, in a few words.
func stepAnswer(s bisect.Step) string {
	if len(s.Kernels) < 3 {
		return map[bisect.Answer]string{bisect.Bad: "they differ", bisect.Open: "open", bisect.Skipped: "failed"}[s.Answer]
	}
	return bisect.Shown(s.Kernels[1]) + " is " + string(s.Answer)
}

// printBisection says what was found, and then by which steps.
func (v verbs) printBisection(f bisect.Found, log string) {
	what := fmt.Sprintf("%s on %s", f.Workload, f.Machine)
	good, bad := bisect.Shown(f.Good), bisect.Shown(f.Bad)
	switch {
	case f.Ended != "" && f.Whole != nil && f.Whole.Verdict.Shown():
		fmt.Fprintf(v.Stdout(), "%s: the change lies between %s and %s. Not narrowed further: %s. The same command goes on.\n", what, good, bad, f.Ended)
	case f.Ended != "":
		fmt.Fprintf(v.Stdout(), "%s: %s\n", what, f.Ended)
	case f.Change == nil:
		fmt.Fprintf(v.Stdout(), "%s: no run compares %s with %s.\n", what, good, bad)
	case f.Change.Verdict.Shown():
		fmt.Fprintf(v.Stdout(), "%s: %s since %s (%s %s against %s).\n", what, f.Change.Size, bad, f.Metric, ratioOf(f.Change), good)
	default:
		fmt.Fprintf(v.Stdout(), "%s: the change comes between %s and %s, but these two do not certainly differ: %s\n", what, good, bad, f.Change.Why)
	}
	if len(f.With) > 0 && f.Change != nil {
		fmt.Fprintf(v.Stdout(), "With it came: %s.\n", strings.Join(f.With, ", "))
	}
	if len(f.Between) > 0 {
		fmt.Fprintf(v.Stdout(), "It may have come earlier, with one of these, which could not be told: %s.\n", strings.Join(shownAll(f.Between), ", "))
	}
	if f.Emulated {
		fmt.Fprintln(v.Stdout(), "! The guests' CPU is emulated: these are ratios of translated instructions. Compare them with emulated ones alone.")
	}
	var rows []table.Row
	for _, s := range f.Steps {
		rows = append(rows, table.Row{strings.Join(shownAll(s.Kernels), ", "), stepAnswer(s), ratioOf(s.Candidate), ratioOf(s.Change), s.Run})
	}
	v.part("Steps", 0, []any{"kernels", "answer", "candidate against good", "bad against good", "run"}, rows, 0)
	fmt.Fprintf(v.Stdout(), "\nall steps and reasons: %s\n", log)
}

// ratioOf is an effect as a ratio with its interval.
func ratioOf(e *analysis.Effect) string {
	if e == nil || e.Difference != nil {
		return quantity.Missing
	}
	r := quantity.Ratio(e.Ratio, e.Interval)
	return fmt.Sprintf("×%s %s", r.Value, r.Interval())
}
