package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// measure runs a study from the plan to the report.
func (env *Env) measure(c *cobra.Command, st study.Study, f *measureFlags) error {
	if err := f.apply(c, &st); err != nil {
		return usageError{err}
	}
	if f.stream && (f.json || f.all || f.html != "") {
		return usageError{errors.New("--stream writes no report: leave out --json, --all and --html; tare report shows the run later")}
	}
	laboratory, err := lab.Open(c.Context(), env.config(c))
	if err != nil {
		return err
	}
	plan, err := laboratory.Plan(c.Context(), st, f.options(c))
	if err != nil {
		return errors.Join(err, laboratory.Close())
	}
	if f.stream {
		return env.stream(c, laboratory, plan)
	}
	return env.carryOut(c, laboratory, plan, func(run *store.Run) (error, error) { return env.show(c, run, f) })
}

// stream measures with the run going to standard output. Its last line has the exit code.
func (env *Env) stream(c *cobra.Command, laboratory *lab.Lab, plan *lab.Plan) error {
	s, err := store.NewStream(env.Stdout, plan.Run)
	if err != nil {
		return errors.Join(err, plan.Run.Close(), laboratory.Close())
	}
	err = env.carryOut(c, laboratory, plan, func(run *store.Run) (verdict, err error) {
		in, err := env.Experiments.Report(run)
		if err != nil {
			return nil, err
		}
		limits := env.showLimits(run, in, env.Stderr)
		if failed := lab.Failures(in.Claims); failed != nil {
			return failed, nil
		}
		return limits, nil
	})
	return errors.Join(err, s.Close(plan.Run, exitCode(err)))
}

// carryOut measures what a plan still lacks, closes the laboratory and shows
// what there is, interrupted or not. show's first result is the error that
// stands for what was found.
func (env *Env) carryOut(c *cobra.Command, laboratory *lab.Lab, plan *lab.Plan, show func(*store.Run) (verdict, err error)) error {
	env.announce(c, plan)
	view := env.newProgress(plan)
	measured := laboratory.Measure(c.Context(), plan, view.update)
	view.stop()
	untidy := laboratory.Close()
	if measured != nil && !errors.Is(measured, context.Canceled) {
		return errors.Join(measured, untidy)
	}
	if untidy != nil {
		fmt.Fprintln(env.Stderr, "tare: clean-up:", untidy)
	}
	if measured != nil {
		fmt.Fprintf(env.Stderr, "interrupted; go on with: tare resume %s\n", env.callRun(c, "", plan.Run))
	}
	verdict, err := show(plan.Run)
	return errors.Join(measured, untidy, err, verdict)
}

// announce says what will be measured and how long that takes.
func (env *Env) announce(c *cobra.Command, plan *lab.Plan) {
	m := plan.Manifest
	most := ""
	if m.Study.Precision > 0 || m.Study.Budget > 0 {
		most = "at most "
	}
	fmt.Fprintf(env.Stderr, "%s: %s%d trials in %d blocks, about %s; run %s\n",
		m.Study.Title, most, m.Trials, m.Study.Blocks, plan.Estimate.Round(time.Second), m.ID)
	for _, line := range costs(plan.Parts(), plan.Estimate) {
		fmt.Fprintln(env.Stderr, line)
	}
	why := slices.Sorted(maps.Values(m.LeftOut))
	for _, reason := range slices.Compact(why) { // of several cells it is often one
		fmt.Fprintln(env.Stderr, "left out:", reason)
	}
	for _, note := range plan.Notes {
		fmt.Fprintln(env.Stderr, "note:", note)
	}
	beside, err := plan.Run.Beside(env.config(c).StateDir)
	if err != nil {
		fmt.Fprintln(env.Stderr, "note: whether other runs are being measured cannot be told:", err)
	}
	for _, other := range beside {
		if other.Study != lab.WatchStudy {
			fmt.Fprintf(env.Stderr, "note: run %s is being measured, too: each disturbs the other\n", other.ID)
		}
	}
}

// A plan that takes at least costly is announced with its parts that take at least
// costlyShare of it.
const (
	costly      = 2 * time.Minute
	costlyShare = 0.1
)

// partFlags are the flags that name the values of a factor.
var partFlags = map[lab.Factor]string{lab.ByWorkload: "--workloads", lab.ByTarget: "--on", lab.ByInstances: "--instances", lab.ByProbe: "--probes"}

// costs are lines that say what a long plan's parts take, and how to leave them out.
func costs(parts []lab.Part, of time.Duration) (lines []string) {
	if of < costly {
		return nil
	}
	for _, part := range parts {
		if part.Time < time.Duration(costlyShare*float64(of)) {
			continue
		}
		var others []string
		for _, other := range parts {
			if other.Factor == part.Factor && other.Name != part.Name {
				others = append(others, other.Name)
			}
		}
		lines = append(lines, fmt.Sprintf("about %s of it: %s %s (without it: %s=%s)",
			part.Time.Round(time.Second), part.Factor, part.Name, partFlags[part.Factor], strings.Join(others, ",")))
	}
	return lines
}

// show prints a run's report and writes its page. Its first result is the
// error that stands for failed trials and for limits that are not met.
func (env *Env) show(c *cobra.Command, run *store.Run, f *measureFlags) (verdict, err error) {
	in, err := env.Experiments.Report(run)
	if err != nil {
		return nil, err
	}
	page, write := f.html, lab.WriteOutput
	if page == "" {
		page, write = filepath.Join(run.Dir(), "report.html"), lab.WriteReport
	}
	in.Names, in.Page = []string{env.callRun(c, "", run)}, page
	if f.json {
		err = report.JSON(env.Stdout, in)
	} else {
		options := env.textOptions()
		options.All = f.all
		err = report.Text(env.Stdout, in, options)
	}
	if err == nil {
		err = write(page, func(w io.Writer) error { return report.HTML(w, in) })
	}
	if err != nil {
		return nil, err
	}
	files, err := lab.WriteProfiles(run)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(env.Stderr, "\nreport: %s\n", page)
	for _, file := range files {
		fmt.Fprintf(env.Stderr, "profile: %s\n", file)
	}
	to := env.Stdout
	if f.json { // which stays one document
		to = env.Stderr
	}
	limits := env.showLimits(run, in, to)
	if failed := lab.Failures(in.Claims); failed != nil {
		return failed, nil
	}
	return limits, nil
}

// standardOutput is how a flag or an argument names it in place of a file.
const standardOutput = "-"

// checkPage is checkOutput for --html of what measures: standard output has its report.
func checkPage(file string) error {
	if file == standardOutput {
		return usageError{errors.New("--html -: standard output has the report: name a file, or take tare report --format html later")}
	}
	return checkOutput("--html", file)
}

// checkOutput refuses a file that cannot be made, before anything is measured
// for it. "" is none.
func checkOutput(flag, file string) error {
	if file == "" || file == standardOutput {
		return nil
	}
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return usageError{fmt.Errorf("%s %s is a directory: name a file in it", flag, file)}
	}
	dir := filepath.Dir(file)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return usageError{fmt.Errorf("%s %s: there is no directory %s", flag, file, dir)}
	}
	return nil
}
