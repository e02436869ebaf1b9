package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func verifyCommand(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "verify RUN",
		Short: "Check that all records and files of a run are whole",
		Long: `verify reads all of a run: its manifest, each record with its checksum, and each log
and profile. It lists what is damaged and exits with 1 where anything is; report
--salvage shows a run without its damaged records.`,
		Example:           "  tare verify last",
		ValidArgsFunction: env.completeRuns,
		Args:              exactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			runs, err := env.openRuns(c, args)
			if err != nil {
				return err
			}
			v, err := runs[0].Verify()
			if err != nil {
				return err
			}
			out := visible{env.Stdout}
			fmt.Fprintf(out, "%d of %d trials recorded; %d logs and profiles\n", v.Records, v.Trials, v.SideFiles)
			if !v.Sums {
				fmt.Fprintln(out, "the run is older than checksums: a changed number in a record cannot be detected")
			}
			if v.Cut > 0 {
				fmt.Fprintf(out, "the last record was cut short after %d bytes: tare resume measures its trial again\n", v.Cut)
			}
			for _, d := range v.Damaged {
				fmt.Fprintln(out, d)
			}
			if len(v.Damaged) > 0 {
				return errors.New("some records or files are damaged")
			}
			return nil
		},
	}
}
