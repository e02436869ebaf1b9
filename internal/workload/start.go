package workload

import (
	"errors"

	"github.com/tarelab/tare/internal/sample"
)

// KindStart is the workload that only starts.
const KindStart = "start"

// start runs nothing but the mark: what is left is the cost of the start.
type start struct{}

func (start) Kind() string             { return KindStart }
func (start) Help() string             { return "starts and ends at once: what the layer itself costs" }
func (start) Params() []Param          { return nil }
func (start) Metrics() []sample.Metric { return nil }

func (start) Command(Values, []string) (Command, error) { return Command{}, nil }

func (start) Parse([]byte) ([]sample.Value, error) {
	return nil, errors.New("the start workload prints nothing to parse")
}
