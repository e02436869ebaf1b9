package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/report"
)

// compareFlags are the options of tare compare.
type compareFlags struct {
	format string
	json   bool
	target string
}

func compareCommand(env *Env) *cobra.Command {
	var f compareFlags
	c := &cobra.Command{
		Use:   "compare A B",
		Short: "Set one machine against another by their Unix scores",
		Long: `compare divides machine A's scores of the Unix tests by machine B's: each test
and the index, with n copies and with one, also per core, per hardware thread
and per GHz. A and B are runs of docker-on-loongson or of tare index (an id, the
start of one, a directory, or "last"), or machines that others have measured, as
published:docker-on-loongson/HOST with loongson-1way, loongson-2way,
loongson-4way or ryzen5. What differs beside the machines is listed as a warning.
Runs under emulation are refused. To compare two runs of one machine, take
tare report A B.`,
		Example: `  tare compare published:docker-on-loongson/loongson-2way published:docker-on-loongson/ryzen5
  tare compare last published:docker-on-loongson/ryzen5 --format md
  tare compare 20261121-0815-docker-on-loongson last --target runc --json`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError{fmt.Errorf("compare takes two machines; tare runs lists the runs\nusage: %s", c.UseLine())}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			format, err := f.parse(args)
			if err != nil {
				return usageError{err}
			}
			a, b, err := env.sides(c, args[0], args[1], f.target)
			if err != nil {
				return err
			}
			m, err := lab.CompareMachines(a, b)
			if err != nil {
				return err
			}
			return report.Machines(env.Stdout, format, m, env.textOptions())
		},
	}
	c.Flags().StringVarP(&f.format, "format", "f", "text", "text, md or json")
	c.Flags().BoolVar(&f.json, "json", false, "the same as --format json")
	c.Flags().StringVar(&f.target, "target", "", "of a run: the target to compare by (default: a container target that both runs have)")
	return c
}

func (f compareFlags) parse(sides []string) (report.Format, error) {
	switch {
	case f.target != "" && !slices.ContainsFunc(sides, func(s string) bool { return !lab.IsPublished(s) }):
		return "", fmt.Errorf("--target %s: both machines are published ones, whose scores are of one container", f.target)
	case f.json && f.format != "text" && f.format != "json":
		return "", fmt.Errorf("--json and --format %s exclude each other", f.format)
	case f.json:
		return report.FormatJSON, nil
	}
	format, err := report.ParseFormat(f.format)
	if err != nil || !slices.Contains(report.MachineFormats(), format) {
		return "", fmt.Errorf("no format %q: compare writes text, md or json", f.format)
	}
	return format, nil
}

// sides finds what the two names mean. Both are checked before any is read.
func (env *Env) sides(c *cobra.Command, first, second, target string) (a, b analysis.MachineSide, err error) {
	var sides [2]analysis.MachineSide
	var machines [2]*lab.Machine
	for i, name := range []string{first, second} {
		if lab.IsPublished(name) {
			if sides[i], err = lab.PublishedMachine(name); err != nil {
				return a, b, err
			}
			continue
		}
		runs, err := env.openRuns(c, []string{name})
		if err != nil {
			return a, b, err
		}
		if machines[i], err = lab.NewMachine(runs[0], name); err != nil {
			return a, b, err
		}
	}
	targets := chooseTargets(machines, target)
	for i, m := range machines {
		if m == nil {
			continue
		}
		if sides[i], err = m.Side(targets[i]); err != nil {
			return a, b, err
		}
	}
	return sides[0], sides[1], nil
}

// chooseTargets are the targets of each run: the user's, or what suits both.
func chooseTargets(machines [2]*lab.Machine, target string) (out [2]string) {
	if target == "" && machines[0] != nil && machines[1] != nil {
		out[0], out[1] = lab.CommonTarget(machines[0], machines[1])
		return out
	}
	for i, m := range machines {
		if out[i] = target; target == "" && m != nil {
			out[i] = m.Targets()[0]
		}
	}
	return out
}
