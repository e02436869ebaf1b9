package workload

import (
	"fmt"

	"github.com/tarelab/tare/internal/sample"
)

// netConnections opens a connection, sends a request and gets its response, and
// closes it, one at a time.
type netConnections struct{}

func (netConnections) Kind() string { return "net-connections" }
func (netConnections) Help() string {
	return "TCP connections with a request and a response of a few bytes each, one after the other"
}

func (netConnections) Params() []Param { return []Param{duration()} }

func (netConnections) Metrics() []sample.Metric {
	return sample.Describe(sample.Connections)
}

func (netConnections) Command(v Values, _ []string) (Command, error) {
	return served(v.Duration("time"), peerAddress, "connect", peerAddress, milliseconds(v.Duration("time"))), nil
}

func (netConnections) Parse(stdout []byte) ([]sample.Value, error) {
	n, err := keyed(stdout, "connections", "elapsed_ns")
	if err != nil {
		return nil, err
	}
	if n["connections"] < 1 {
		return nil, fmt.Errorf("no connection was made")
	}
	perSecond, err := rate(n["connections"], n["elapsed_ns"])
	if err != nil {
		return nil, err
	}
	return checked([]sample.Value{{Metric: sample.Connections, Value: perSecond}})
}
