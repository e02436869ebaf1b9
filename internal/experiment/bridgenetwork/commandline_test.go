package bridgenetwork_test

import (
	"testing"

	"github.com/tarelab/tare/internal/cli"
	"github.com/tarelab/tare/internal/cli/clitest"
	"github.com/tarelab/tare/internal/driver/all"
	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/experiment/bridgenetwork"
)

func TestMain(m *testing.M) {
	clitest.Main(m, cli.Env{Drivers: all.Drivers, Foreign: all.Foreign(), Experiments: experiment.List{bridgenetwork.Experiment()}}, nil)
}

// TestCommandLine runs the scripts of testdata/script.
func TestCommandLine(t *testing.T) { clitest.Run(t) }
