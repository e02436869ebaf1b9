package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// laboratory is the environment as verbs of other packages see it.
type laboratory struct{ env *Env }

// Config implements experiment.Laboratory.
func (l laboratory) Config(c *cobra.Command) lab.Config { return l.env.config(c) }

// Stdout implements experiment.Laboratory.
func (l laboratory) Stdout() io.Writer { return visible{l.env.Stdout} }

// Stderr implements experiment.Laboratory.
func (l laboratory) Stderr() io.Writer { return l.env.Stderr }

// Width implements experiment.Laboratory.
func (l laboratory) Width() int { return l.env.width() }

// Table implements experiment.Laboratory.
func (l laboratory) Table(header ...any) table.Writer { return l.env.table(header...) }

// JSON implements experiment.Laboratory.
func (l laboratory) JSON(v any) error { return l.env.printJSON(v) }

// Live implements experiment.Laboratory.
func (l laboratory) Live() bool { return l.env.draws(l.env.Stderr) }

// ClearLine implements experiment.Laboratory.
func (l laboratory) ClearLine() {
	if l.Live() {
		fmt.Fprint(raw(l.env.Stderr), "\r\x1b[K")
	}
}

// Sections implements experiment.Laboratory.
func (l laboratory) Sections(all []finding.Section) error {
	return report.WriteSections(l.env.Stdout, all, l.env.textOptions())
}

// Document implements experiment.Laboratory.
func (l laboratory) Document(format report.Format, d finding.Document, file string) error {
	d.Tool = l.env.Version
	if err := checkOutput("--output", file); err != nil {
		return err
	}
	return l.env.writeTo(file, func(w io.Writer, o report.Options) error { return report.WriteDocument(w, format, d, o) })
}

// Run implements experiment.Laboratory.
func (l laboratory) Run(c *cobra.Command, name string) (*store.Run, error) {
	runs, err := l.env.openRuns(c, []string{name})
	if err != nil {
		return nil, err
	}
	return runs[0], nil
}

// Report implements experiment.Laboratory.
func (l laboratory) Report(run *store.Run) (report.Input, error) {
	return l.env.Experiments.Report(run)
}

// Study implements experiment.Laboratory.
func (l laboratory) Study(name string) (study.Study, error) {
	st, err := l.env.loadStudy(name)
	if err != nil {
		return st, usageError{err}
	}
	return st, nil
}

// Publication implements experiment.Laboratory.
func (l laboratory) Publication(name string) ([]byte, error) {
	return l.env.Experiments.Publication(name)
}

// Measurement implements experiment.Laboratory.
func (l laboratory) Measurement(flags *pflag.FlagSet) func(*cobra.Command, study.Study) error {
	f := new(measureFlags)
	f.define(flags)
	flags.StringVar(&f.rootfs, "rootfs", "", "run commands in this root file system (a directory; never written to)")
	flags.StringVar(&f.image, "image", "", "run commands in this image (OCI layout, or a tar of one or of docker save)")
	return func(c *cobra.Command, st study.Study) error { return l.env.measure(c, st, f) }
}

// CarryOut implements experiment.Laboratory.
func (l laboratory) CarryOut(c *cobra.Command, open *lab.Lab, plan *lab.Plan, show func(*store.Run) (outcome, err error)) error {
	return l.env.carryOut(c, open, plan, show)
}

// contributed are the verbs of other packages. An error of their arguments is bad
// usage, as it is of the command line's own verbs.
func (env *Env) contributed() []*cobra.Command {
	var all []*cobra.Command
	for _, commands := range env.Commands {
		all = append(all, commands(laboratory{env})...)
	}
	for _, e := range env.Experiments {
		if e.Commands != nil {
			all = append(all, e.Commands(laboratory{env})...)
		}
	}
	for _, c := range all {
		checkArgs(c)
	}
	return all
}

// checkArgs has a verb and those below it tell bad usage with how they are used.
func checkArgs(c *cobra.Command) {
	for _, sub := range c.Commands() {
		checkArgs(sub)
	}
	args := c.Args
	if args == nil {
		return
	}
	c.Args = func(c *cobra.Command, given []string) error {
		err := args(c, given)
		if err == nil || errors.As(err, new(*lab.InputError)) {
			return err
		}
		if words := err.Error(); strings.HasPrefix(words, "accepts ") || strings.HasPrefix(words, "requires ") { // cobra's own
			return notTaken(c, given)
		}
		return usageError{fmt.Errorf("%w\nusage: %s", err, c.UseLine())}
	}
}
