package kerneltools_test

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/cli"
	"github.com/tarelab/tare/internal/cli/clitest"
	"github.com/tarelab/tare/internal/driver/all"
	"github.com/tarelab/tare/internal/experiment"
	experiments "github.com/tarelab/tare/internal/experiment/all"
	"github.com/tarelab/tare/internal/kerneltools"
	"github.com/tarelab/tare/internal/kerneltools/containerhost"
)

func TestMain(m *testing.M) {
	clitest.Main(m, cli.Env{Drivers: containerhost.Add(all.Drivers), Foreign: containerhost.Foreign(all.Foreign()), Experiments: experiments.Experiments(), Commands: []func(experiment.Laboratory) []*cobra.Command{kerneltools.Commands}}, nil)
}

// TestCommandLine runs the scripts of testdata/script.
func TestCommandLine(t *testing.T) { clitest.Run(t) }
