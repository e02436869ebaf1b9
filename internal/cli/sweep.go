package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/lab"
)

func sweepCommand(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "sweep",
		Short: "Remove what a killed tare left: processes, cgroups, mounts, files",
		Long: `sweep ends and removes everything that sessions of this state directory which no
longer run have left on the machine: processes, cgroups, mounts and files, by
tare's own label only. Each measurement starts with the same sweep. Runs and
images are kept. A session of another state directory is swept with --state.`,
		Args: exactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			swept, err := lab.Sweep(env.config(c).StateDir)
			for _, s := range swept {
				fmt.Fprintln(env.Stdout, s)
			}
			if err == nil && len(swept) == 0 {
				fmt.Fprintln(env.Stdout, "nothing was left")
			}
			return err
		},
	}
}
