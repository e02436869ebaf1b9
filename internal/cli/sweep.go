package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/lab"
)

func sweepCommand(env *Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "sweep",
		Short: "Remove what a killed tare left: processes, cgroups, mounts, files, containers",
		Long: `sweep ends and removes everything that sessions of this state directory which no
longer run have left on the machine: processes, cgroups, mounts, files, and what
they made in engines that are yours, by tare's own label only. Each measurement starts with the same sweep. Images
that no run has used for a week go, too, and all but the last eight; runs are kept.
A session of another state directory is swept with --state.`,
		Args: exactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			state := env.config(c).StateDir
			swept, err := lab.Sweep(c.Context(), state, env.Drivers)
			pruned, unpruned := lab.PruneImages(c.Context(), state)
			swept, err = append(swept, pruned...), errors.Join(err, unpruned)
			if asJSON {
				return errors.Join(err, env.printJSON(append([]string{}, swept...))) // [] for none
			}
			for _, s := range swept {
				fmt.Fprintln(env.Stdout, s)
			}
			if err == nil && len(swept) == 0 {
				fmt.Fprintln(env.Stdout, "nothing was left")
			}
			return err
		},
	}
	jsonFlag(c, &asJSON)
	return c
}
