package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tarelab/tare/internal/lab"
)

func imageCommand(env *Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "image",
		Short: "Save the workbench image, for runs of the same bits on other machines",
		Args:  noCommand,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use:   "save FILE [COMMAND...]",
		Short: "Write the workbench, with commands of this machine, to a file",
		Long: `save writes the image that this machine's targets run: its busybox, sysbench, fio and
iperf3 with their libraries, tare's helper programs, and each COMMAND with its
libraries. FILE is a tar of an OCI image layout. It prints FILE@sha256:DIGEST, which
--workbench of run, weigh and resume takes on other machines of this architecture.`,
		Example: `  tare image save workbench.tar
  tare weigh --workbench workbench.tar@sha256:DIGEST --on host,runc -- true`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("no file is named\nusage: %s", c.UseLine())}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkOutput("FILE", args[0]); err != nil {
				return err
			}
			digest, err := lab.SaveWorkbench(c.Context(), env.config(c), args[0], args[1:])
			if err != nil {
				return err
			}
			fmt.Fprintln(visible{env.Stdout}, args[0]+"@"+digest)
			return nil
		},
	})
	return c
}

func workbenchFlag(flags *pflag.FlagSet) {
	flags.String("workbench", "", "run in this saved workbench, FILE@sha256:DIGEST, in place of this machine's programs (tare image save)")
}
