package unixbench

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/report"
)

// mostMachines is how many machines one comparison takes.
const mostMachines = 16

// compareFlags are the options of tare compare.
type compareFlags struct {
	format string
	json   bool
	target string
	output string
}

func compareCommand(l experiment.Laboratory) *cobra.Command {
	var f compareFlags
	c := &cobra.Command{
		Use:     "compare A B [C...]",
		GroupID: experiment.GroupLook,
		Short:   "Compare machines by their Unix scores",
		Long: `compare divides machine A's scores of the Unix tests by machine B's: each test
and the index, with n copies and with one, also per core, per hardware thread
and per GHz. A and B are runs of docker-on-loongson or of tare index (an id, the
start of one, a directory, or "last"), or machines that others have measured, as
published:docker-on-loongson/HOST with loongson-1way, loongson-2way,
loongson-4way or ryzen5. Of several machines each is divided by the last. --format html
is a page with figures: bars by test, per core and per GHz. What differs beside the machines is listed as a warning.
Runs under emulation are refused. To compare two runs of one machine, take
tare report A B.`,
		Example: `  tare compare published:docker-on-loongson/loongson-2way published:docker-on-loongson/ryzen5
  tare compare last published:docker-on-loongson/ryzen5 --format md
  tare compare published:docker-on-loongson/loongson-2way published:docker-on-loongson/loongson-4way published:docker-on-loongson/ryzen5 --format html -o machines.html
  tare compare 20261121-0815-docker-on-loongson last --target runc --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) > mostMachines {
				return fmt.Errorf("compare takes 2 to %d machines; tare runs lists the runs", mostMachines)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			format, err := f.parse(args)
			if err != nil {
				return &lab.InputError{Err: err}
			}
			machines, err := sides(c, l, args, f.target)
			if err != nil {
				return err
			}
			last := len(machines) - 1
			var all []comparison
			for _, a := range machines[:last] {
				m, err := compareSides(a, machines[last])
				if err != nil {
					return &lab.InputError{Err: err}
				}
				all = append(all, m)
			}
			return l.Document(format, document(all), f.output)
		},
	}
	c.Flags().StringVarP(&f.format, "format", "f", "text", "text, md, json or html")
	c.Flags().StringVarP(&f.output, "output", "o", "", "write to this file; - is standard output, as without it")
	c.Flags().BoolVar(&f.json, "json", false, "the same as --format json")
	c.Flags().StringVar(&f.target, "target", "", "of a run: the target to compare by (default: a container target that all runs have)")
	return c
}

func (f compareFlags) parse(sides []string) (report.Format, error) {
	switch {
	case f.target != "" && !slices.ContainsFunc(sides, func(s string) bool { return !isPublished(s) }):
		return "", fmt.Errorf("--target %s: all machines are published ones, whose scores are of one container", f.target)
	case f.json && f.format != "text" && f.format != "json":
		return "", fmt.Errorf("--json and --format %s exclude each other", f.format)
	case f.json:
		return report.FormatJSON, nil
	}
	return report.ParseDocumentFormat(f.format)
}

// sides finds what the names mean. All are checked before any is read.
func sides(c *cobra.Command, l experiment.Laboratory, names []string, target string) ([]side, error) {
	found, runs := make([]side, len(names)), make([]*measured, len(names))
	for i, named := range names {
		var err error
		if isPublished(named) {
			if found[i], err = publishedMachine(named); err != nil {
				return nil, err
			}
			continue
		}
		run, err := l.Run(c, named)
		if err != nil {
			return nil, err
		}
		if runs[i], err = newMeasured(run, named); err != nil {
			return nil, err
		}
	}
	common := commonTarget(runs)
	for i, m := range runs {
		if m == nil {
			continue
		}
		var err error
		if found[i], err = m.side(cmp.Or(target, common, m.targets()[0])); err != nil {
			return nil, err
		}
	}
	return found, nil
}
