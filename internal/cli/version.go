package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionCommand(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the build of this tare",
		Args:  exactArgs(0),
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintf(env.Stdout, "tare %s %s/%s %s\n", env.Version, runtime.GOOS, runtime.GOARCH, runtime.Version())
			if info, ok := debug.ReadBuildInfo(); ok {
				fmt.Fprintln(env.Stdout, "module", info.Main.Path)
			}
			return nil
		},
	}
}

// printJSON writes v as indented JSON.
func (env *Env) printJSON(v any) error {
	e := json.NewEncoder(env.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
