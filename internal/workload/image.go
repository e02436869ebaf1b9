package workload

import (
	"errors"

	"github.com/tarelab/tare/internal/sample"
)

// KindImage is the workload that runs what the user's image is made to run.
const KindImage = "image"

// image runs the image's own entry point and command as they are, without the
// mark: it acted at its first byte of standard output or, where it prints none,
// at its end.
type image struct{}

func (image) Kind() string { return KindImage }
func (image) Help() string {
	return "runs the own command of the image that --image names, and reads nothing of what it prints"
}
func (image) Params() []Param { return nil }

func (image) Metrics() []sample.Metric { return nil }

func (image) Command(Values, []string) (Command, error) { return Command{Own: true}, nil }

func (image) Parse([]byte) ([]sample.Value, error) {
	return nil, errors.New("the output of an image's own command is not parsed")
}
