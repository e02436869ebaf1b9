package cli_test

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/cli"
	"github.com/tarelab/tare/internal/cli/clitest"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/all"
	"github.com/tarelab/tare/internal/driver/fake"
	experiments "github.com/tarelab/tare/internal/experiment/all"
	"github.com/tarelab/tare/internal/kerneltools/containerhost"
)

// The real targets, and a few scripted ones for faults that real targets do not
// produce on demand.
func TestMain(m *testing.M) {
	drivers := func(lab driver.Lab) []driver.Driver {
		return append(containerhost.Add(all.Drivers)(lab),
			scripted("fake/fast", fake.Script{Ready: time.Millisecond, Run: time.Millisecond}),
			scripted("fake/slow", fake.Script{Ready: time.Millisecond, Run: 30 * time.Millisecond}),
			scripted("fake/hang", fake.Script{Hang: true}),
			scripted("fake/broken", fake.Script{StartErr: errors.New("the wheel fell off")}),
		)
	}
	clitest.Main(m, cli.Env{Drivers: drivers, Foreign: containerhost.Foreign(all.Foreign()), Experiments: experiments.Experiments()}, map[string]func(){
		"tare-that-panics": func() { // in another goroutine than the verb's
			cli.Main(cli.Env{Args: []string{"runs"}, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: func(string) string {
				go panic("the wheel fell off")
				select {}
			}})
		},
	})
}

// A panic outside of the verb's goroutine does not exit with 2 either, the code of bad
// usage, as it did on a2ee321.
func TestPanicOfAGoroutine(t *testing.T) {
	c := exec.CommandContext(t.Context(), "tare-that-panics")
	c.Dir = t.TempDir() // of a core file
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGABRT {
		t.Errorf("ended with %v, want SIGABRT; it said %s", err, out)
	}
}

func scripted(name string, s fake.Script) driver.Driver {
	return fake.New(name, func(int, driver.Spec) fake.Script { return s })
}

// TestCommandLine runs the scripts of testdata/script: the command line as a
// user types it.
func TestCommandLine(t *testing.T) { clitest.Run(t) }
