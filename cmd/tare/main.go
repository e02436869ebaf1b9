// Command tare weighs isolation on Linux: the same workload on the host, in a
// bare container and in OCI runtimes, with what each layer costs and how sure
// that is.
package main

import (
	"cmp"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/cli"
	"github.com/tarelab/tare/internal/driver/all"
	"github.com/tarelab/tare/internal/experiment"
	experiments "github.com/tarelab/tare/internal/experiment/all"
	"github.com/tarelab/tare/internal/kerneltools"
	"github.com/tarelab/tare/internal/kerneltools/containerhost"
)

// version is set by the linker (-X main.version).
var version string

// built is the version of this build: the linker's, else that of the module, which
// go install knows.
func built() string {
	info, ok := debug.ReadBuildInfo()
	if version == "" && ok {
		return cmp.Or(strings.Trim(info.Main.Version, "()"), "devel")
	}
	return cmp.Or(version, "devel")
}

func main() {
	os.Exit(cli.Main(cli.Env{
		Args:        os.Args[1:],
		Getenv:      os.Getenv,
		Stdout:      os.Stdout,
		Stderr:      os.Stderr,
		Drivers:     containerhost.Add(all.Drivers),
		Foreign:     containerhost.Foreign(all.Foreign()),
		Experiments: experiments.Experiments(),
		Version:     built(),
		Commands:    []func(experiment.Laboratory) []*cobra.Command{kerneltools.Commands},
	}))
}
