package workload

import (
	"errors"

	"github.com/tarelab/tare/internal/sample"
)

// KindHold is the workload that acts and then waits to be ended.
const KindHold = "hold"

// hold runs nothing but the mark, which then waits: what is left is the weight of
// an instance that is alive.
type hold struct{}

func (hold) Kind() string { return KindHold }
func (hold) Help() string {
	return "starts and waits until all instances of the trial are alive and counted: what each weighs"
}
func (hold) Params() []Param          { return nil }
func (hold) Metrics() []sample.Metric { return nil }

func (hold) Command(Values, []string) (Command, error) { return Command{Hold: true}, nil }

func (hold) Parse([]byte) ([]sample.Value, error) {
	return nil, errors.New("the hold workload prints nothing to parse")
}
