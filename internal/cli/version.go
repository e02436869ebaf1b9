package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/helpers"
)

// commit is set by the linker in a release, which is built without the version
// control's own stamp: that one differs with the checkout.
var commit string

// build is what a tare says of itself.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"` // "" where neither the linker nor go build was told
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Go      string `json:"go"`
	Module  string `json:"module,omitempty"`
	Guest   string `json:"guest"` // digest of the programs that run inside targets
	C       string `json:"c"`     // the compiler that built those
}

func versionCommand(env *Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Show the build of this tare",
		Args:  exactArgs(0),
		RunE: func(*cobra.Command, []string) error {
			b, err := thisBuild(env.Version)
			if err != nil {
				return err
			}
			if asJSON {
				return env.printJSON(b)
			}
			fmt.Fprintf(env.Stdout, "tare %s %s/%s %s\n", b.Version, b.OS, b.Arch, b.Go)
			for _, line := range [][2]string{{"commit", b.Commit}, {"module", b.Module}, {"guest", b.Guest}, {"built by", b.C}} {
				if line[1] != "" {
					fmt.Fprintln(env.Stdout, line[0], line[1])
				}
			}
			return nil
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

func thisBuild(version string) (build, error) {
	b := build{Version: version, Commit: commit, OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version()}
	digest, err := helpers.Digest()
	if err != nil {
		return b, err
	}
	b.Guest = digest
	if b.C, err = helpers.Compiler(); err != nil {
		return b, err
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b, nil
	}
	b.Module = info.Main.Path
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && b.Commit == "" {
			b.Commit = s.Value
		}
	}
	return b, nil
}

// printJSON writes v as indented JSON.
func (env *Env) printJSON(v any) error {
	e := json.NewEncoder(visible{env.Stdout})
	e.SetIndent("", "  ")
	return e.Encode(v)
}
