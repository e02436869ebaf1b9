package experiment

import (
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// The groups in which tare --help lists verbs: the GroupID of each command.
const (
	GroupMeasure  = "measure"
	GroupLook     = "look"
	GroupDiagnose = "diagnose"
	GroupKernels  = "kernels"
	GroupKeep     = "housekeeping"
)

// Laboratory is what the command line gives to a package that has verbs of its own:
// a function Commands(Laboratory) []*cobra.Command, which cmd/tare/main.go hands to
// the command line. Such verbs measure and report through package lab. They return
// lab.InputError, lab.LackError, lab.FailedError or driver.CannotError where the exit
// code is not that of a failed laboratory; errors of Args are bad usage.
type Laboratory interface {
	// Config is the laboratory's configuration, by the command's flags and the
	// environment.
	Config(*cobra.Command) lab.Config
	// Stdout and Stderr take text: what is in it cannot command a terminal.
	Stdout() io.Writer
	Stderr() io.Writer
	// Width is the number of columns of standard output.
	Width() int
	// Table is a table that is printed to standard output; prose is wrapped.
	Table(header ...any) table.Writer
	// JSON prints a value to standard output, indented.
	JSON(v any) error
	// Live reports whether standard error is a terminal, on which ClearLine empties
	// the line for the next text.
	Live() bool
	ClearLine()
	// Sections prints sections of something that is no run to standard output.
	Sections([]finding.Section) error
	// Document writes a document in one of report.DocumentFormats into a file, or to
	// standard output where file is "" or "-".
	Document(format report.Format, d finding.Document, file string) error
	// Run opens the run that the user names: by its id, the start of one, a directory,
	// or "last".
	Run(c *cobra.Command, name string) (*store.Run, error)
	// Report makes the input of a run's report, with what every experiment says of it.
	Report(*store.Run) (report.Input, error)
	// Study reads the study that the user names: a built-in one, or a file by its path.
	Study(name string) (study.Study, error)
	// Publication gives an experiment's published.yaml.
	Publication(experiment string) ([]byte, error)
	// Measurement defines the flags of a measurement, such as --blocks, --json and
	// --rootfs; who takes both --rootfs and --image gives one of them.
	// The function that it returns runs a study with them, from the plan to the report.
	Measurement(*pflag.FlagSet) func(*cobra.Command, study.Study) error
	// CarryOut measures a plan, closes the laboratory, and calls show with the run,
	// complete or interrupted. The first result of show is the error that the run's
	// outcome stands for, such as failed trials.
	CarryOut(c *cobra.Command, open *lab.Lab, plan *lab.Plan, show func(*store.Run) (outcome, err error)) error
}
