package cli

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/gate"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// gateFlags are those of tare gate.
type gateFlags struct {
	file     string
	most     []string
	least    []string
	baseline string
	format   string
	output   string
	open     string
}

func gateCommand(env *Env) *cobra.Command {
	var f gateFlags
	c := &cobra.Command{
		Use:   "gate RUN...",
		Short: "Judge limits on runs, with an exit code for CI",
		Long: `gate judges limits on stored runs: those of --limits, --max and --min, else those of the
run's own study. A limit is met when the whole interval is within it, broken when
the whole interval is beyond it, and else open. Ratios are to the run's control,
or with --baseline to the same cell of that run. docs/gates.md has the rules.`,
		Example: `  tare gate last --min cpu+1cpu/runc:98%
  tare gate last --limits limits.yaml --format junit -o limits.xml
  tare gate last --max 'start/*:1.10' --baseline 20261121-0815 --format github`,
		ValidArgsFunction: env.completeRuns,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 {
				return usageError{errors.New("gate takes a run, or several; tare runs lists them")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return env.gate(c, &f, args) },
	}
	c.Flags().StringVar(&f.file, "limits", "", "YAML file with the key limits, as a study has it")
	c.Flags().StringArrayVar(&f.most, "max", nil, "limit WORKLOAD/TARGET[:METRIC]:BOUND: at most this ratio (1.10, +10%) or value (20ms); repeatable")
	c.Flags().StringArrayVar(&f.least, "min", nil, "the same: at least")
	c.Flags().StringVar(&f.baseline, "baseline", "", "earlier run that ratios are to, instead of the control; weaker than one interleaved run of both")
	outputFlag(c, &f.output)
	c.Flags().StringVar(&f.open, "open", "fail", "what an open limit does: fail or pass")
	formatFlag(c, &f.format, "text, md, junit, github, json, benchstat (the samples of the runs) or openmetrics", "text", "md", "junit", "github", "json", "benchstat", "openmetrics")
	complete(c, "open", cobra.FixedCompletions([]string{"fail", "pass"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// gate judges limits on runs and writes the answers.
func (env *Env) gate(c *cobra.Command, f *gateFlags, names []string) error {
	format, err := report.ParseGateFormat(f.format)
	if err != nil {
		return usageError{err}
	}
	if f.open != "fail" && f.open != "pass" {
		return usageError{fmt.Errorf("--open %s: it is fail or pass", f.open)}
	}
	if err := checkOutput("--output", f.output); err != nil {
		return err
	}
	limits, err := f.limits()
	if err != nil {
		return usageError{err}
	}
	runs, err := env.openRuns(c, names)
	if err != nil {
		return err
	}
	in := report.GateInput{OpenPass: f.open == "pass"}
	var baseline *store.Run
	if f.baseline != "" {
		before, err := env.openRuns(c, []string{f.baseline})
		if err != nil {
			return err
		}
		baseline, in.Baseline = before[0], before[0].Manifest().ID
	}
	for _, run := range runs {
		answers, of, err := judged(run, limits, baseline)
		if err != nil {
			return err
		}
		in.Answers, in.Runs = append(in.Answers, answers...), append(in.Runs, of)
	}
	err = env.writeTo(f.output, func(w io.Writer, _ report.Options) error { return report.WriteGate(w, format, in) })
	return errors.Join(err, gateOf(in))
}

// limits are those of the file and the flags; none is nil.
func (f *gateFlags) limits() ([]study.Limit, error) {
	var all []study.Limit
	if f.file != "" {
		data, err := readStudy(f.file)
		if err != nil {
			return nil, fmt.Errorf("limits: %w", err)
		}
		if all, err = study.ParseLimits(f.file, data); err != nil {
			return nil, err
		}
	}
	for _, text := range f.most {
		l, err := study.ParseMax(text)
		if err != nil {
			return nil, fmt.Errorf("--max: %w", err)
		}
		all = append(all, l)
	}
	for _, text := range f.least {
		l, err := study.ParseMin(text)
		if err != nil {
			return nil, fmt.Errorf("--min: %w", err)
		}
		all = append(all, l)
	}
	for i, l := range all {
		var err error
		if all[i], err = l.Renamed(absoluteProgram); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// absoluteProgram is a target's name with the path of its program as a run has it. The
// program itself need not be there any more.
func absoluteProgram(name string) (string, error) {
	target, path, ok := strings.Cut(name, driver.ProgramSign)
	if !ok || driver.IsRelease(path) {
		return name, nil
	}
	path, err := filepath.Abs(path)
	return target + driver.ProgramSign + path, err
}

// judged are the answers on one run, and its report; without limits those of its study.
// A run whose study has none is bad input: a gate that judges nothing must not pass.
func judged(run *store.Run, limits []study.Limit, baseline *store.Run) ([]gate.Answer, report.Input, error) {
	m := run.Manifest()
	if limits == nil {
		limits = m.Study.Limits
	}
	if len(limits) == 0 {
		return nil, report.Input{}, usageError{fmt.Errorf("run %s: its study has no limits: name some with --max or --limits", m.ID)}
	}
	_, in, err := lab.Report(run)
	if err != nil {
		return nil, report.Input{}, err
	}
	on := gate.Run{ID: m.ID, Tables: in.Claims.Tables, Skipped: m.LeftOut}
	if baseline != nil {
		compared, err := lab.Compare(baseline, run)
		if err != nil {
			return nil, report.Input{}, err
		}
		on.Baseline, on.Comparisons = baseline.Manifest().ID, compared.Claims.Comparisons
	}
	answers, err := gate.Judge(limits, on)
	if err != nil {
		return nil, report.Input{}, usageError{err}
	}
	return answers, in, nil
}

// gateOf is the error that the answers stand for; nil where the gate lets pass.
func gateOf(in report.GateInput) error {
	switch worst := gate.Worst(in.Answers); {
	case worst == gate.Met, worst == gate.Open && in.OpenPass:
		return nil
	default:
		return gateError{worst}
	}
}

// showLimits judges the study's own limits at the end of its run; nil for none.
func (env *Env) showLimits(run *store.Run, in report.Input, to io.Writer) error {
	m := run.Manifest()
	if len(m.Study.Limits) == 0 {
		return nil
	}
	answers, err := gate.Judge(m.Study.Limits, gate.Run{ID: m.ID, Tables: in.Claims.Tables, Skipped: m.LeftOut})
	if err != nil {
		return err
	}
	found := report.GateInput{Answers: answers}
	fmt.Fprintln(to, "\nLimits")
	return errors.Join(report.WriteGate(to, report.FormatText, found), gateOf(found))
}
