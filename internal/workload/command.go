package workload

import (
	"errors"
	"slices"

	"github.com/tarelab/tare/internal/sample"
)

// KindCommand is the workload that runs the user's own command.
const KindCommand = "command"

// command runs any argv and reads only the general metrics.
type command struct{}

func (command) Kind() string { return KindCommand }
func (command) Help() string {
	return "runs the command given as args, as it is, and reads nothing of what it prints"
}
func (command) Params() []Param          { return nil }
func (command) Metrics() []sample.Metric { return nil }

func (command) Command(_ Values, argv []string) (Command, error) {
	if len(argv) == 0 || argv[0] == "" {
		return Command{}, errors.New("args is empty: give the command to run")
	}
	return Command{Args: slices.Clone(argv)}, nil
}

func (command) Parse([]byte) ([]sample.Value, error) {
	return nil, errors.New("a command's output is not parsed")
}
