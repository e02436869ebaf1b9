package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// verified is what tare verify found, as --json prints it.
type verified struct {
	Run       string   `json:"run"`
	Records   int      `json:"records"` // whole, and in their place in the plan
	Trials    int      `json:"trials"`  // of the plan
	Sums      bool     `json:"sums"`    // each record has a checksum
	SideFiles int      `json:"sideFiles"`
	Cut       int64    `json:"cut"` // bytes of a last record that was cut short
	Damaged   []string `json:"damaged"`
}

func verifyCommand(env *Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "verify RUN",
		Short: "Check that all records and files of a run are whole",
		Long: `verify reads all of a run: its manifest, each record with its checksum, and each log
and profile. It lists what is damaged and exits with 1 where anything is, or with 2 where
the manifest is; report --salvage shows a run without its damaged records.`,
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
			found := verified{runs[0].Manifest().ID, v.Records, v.Trials, v.Sums, v.SideFiles, v.Cut, []string{}}
			for _, d := range v.Damaged {
				found.Damaged = append(found.Damaged, d.Error())
			}
			if asJSON {
				err = env.printJSON(found)
			} else {
				env.printVerified(found)
			}
			if len(v.Damaged) > 0 {
				return errors.Join(err, errors.New("some records or files are damaged"))
			}
			return err
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

func (env *Env) printVerified(v verified) {
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
}
