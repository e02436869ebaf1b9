package workload

import (
	"strconv"

	"github.com/tarelab/tare/internal/sample"
)

// netUnix is a stream over a local socket, which needs no network: the least
// that two processes pay. Both ends must see the same file system.
type netUnix struct{ costPerGbit }

func (netUnix) Kind() string { return "net-unix" }
func (netUnix) Help() string {
	return "a stream over a local (Unix) socket between two processes of one container, for a fixed time"
}

func (netUnix) Params() []Param {
	return []Param{duration(), {Name: "length", Type: Size, Default: "128KiB", Help: "bytes of one write", Min: 1, Max: 1 << 20}}
}

func (netUnix) Metrics() []sample.Metric { return sample.Describe(sample.Throughput, sample.Moved) }

func (netUnix) Command(v Values, _ []string) (Command, error) {
	return served(v.Duration("time"), localSocket, "stream", localSocket,
		strconv.FormatInt(v.Bytes("length"), 10), milliseconds(v.Duration("time"))), nil
}

func (netUnix) Parse(stdout []byte) ([]sample.Value, error) {
	n, err := keyed(stdout, "bytes", "elapsed_ns")
	if err != nil {
		return nil, err
	}
	perSecond, err := rate(8*n["bytes"], n["elapsed_ns"])
	if err != nil {
		return nil, err
	}
	return checked([]sample.Value{{Metric: sample.Throughput, Value: perSecond}, {Metric: sample.Moved, Value: n["bytes"]}})
}
