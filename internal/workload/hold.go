package workload

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tarelab/tare/internal/sample"
)

// KindHold is the workload that acts and then waits to be ended.
const KindHold = "hold"

// hold runs nothing but the mark, which then waits: what is left is the weight of
// an instance that is alive, or of one that has worked and is idle again.
type hold struct{}

func (hold) Kind() string { return KindHold }
func (hold) Help() string {
	return "starts and waits until all instances of the trial are alive and counted: what each weighs"
}

func (hold) Params() []Param {
	return []Param{
		{Name: "load", Type: Size, Default: "0", Help: "memory that a program writes and gives back in the instance before it is ready, a power of two; 0 for none", Min: 0, Max: 1 << 34},
		{Name: "settle", Type: Duration, Default: "0s", Help: "how long all are idle before they are counted", Min: 0, Max: int64(10 * time.Minute)},
	}
}

func (hold) Metrics() []sample.Metric {
	return sample.Describe(sample.ReadyLast)
}

// holdScript works first: the size comes as $1, and what holds follows.
const holdScript = `size=$1; shift
sysbench memory --threads=1 --memory-block-size="$size" --memory-total-size="$size" run >&2 || exit 1
exec "$@"`

func (hold) Command(v Values, _ []string) (Command, error) {
	c := Command{Hold: true, Settle: v.Duration("settle"), Length: v.Duration("settle")}
	load := v.Bytes("load")
	switch {
	case load == 0:
		return c, nil
	case load < 4096 || load&(load-1) != 0:
		return c, fmt.Errorf("parameter \"load\": %d bytes are no power of two from 4 KiB on, which sysbench takes alone", load)
	}
	c.Args = []string{shellPath, "-c", holdScript, KindHold, strconv.FormatInt(load, 10)}
	c.Env, c.Needs, c.Memory = []string{shellSearch}, []string{"busybox", "sysbench"}, load
	return c, nil
}

func (hold) Parse([]byte) ([]sample.Value, error) {
	return nil, errors.New("the hold workload prints nothing to parse")
}
