package workload

import (
	"fmt"
	"strconv"

	"github.com/tarelab/tare/internal/sample"
)

// netLatency sends a request and waits for its answer, one at a time.
type netLatency struct{}

func (netLatency) Kind() string { return "net-latency" }
func (netLatency) Help() string {
	return "request and response of so many bytes each, one at a time, between two ends of a path"
}

func (netLatency) Params() []Param {
	return []Param{
		duration(),
		{Name: "bytes", Type: Size, Default: "1", Help: "bytes of a request and of its response", Min: 1, Max: 1 << 20},
		{Name: "protocol", Type: Choice, Default: "tcp", Help: "how they travel", Choices: []string{"tcp", "udp", "unix"}},
	}
}

func (netLatency) Metrics() []sample.Metric {
	return sample.Describe(sample.RTT, sample.RTTMean, sample.RTTP99, sample.RTTP999, sample.RoundTrips)
}

func (netLatency) Command(v Values, _ []string) (Command, error) {
	protocol, place := v.Text("protocol"), peerAddress
	if protocol == "unix" {
		place = localSocket
	}
	if protocol == "udp" && v.Bytes("bytes") > 65507 {
		return Command{}, fmt.Errorf("%d bytes do not fit into a datagram, which takes 65507", v.Bytes("bytes"))
	}
	return served(v.Duration("time"), place, "rtt", protocol, place,
		strconv.FormatInt(v.Bytes("bytes"), 10), milliseconds(v.Duration("time"))), nil
}

// fewestForTail is how many round trips a 99.9th percentile takes at least, and
// a tenth of it a 99th.
const fewestForTail = 1000

func (netLatency) Parse(stdout []byte) ([]sample.Value, error) {
	n, err := keyed(stdout, "samples", "mean_ns", "p50_ns", "p99_ns", "p999_ns")
	if err != nil {
		return nil, err
	}
	if n["samples"] < 1 {
		return nil, fmt.Errorf("no round trip was measured")
	}
	values := []sample.Value{{Metric: sample.RTT, Value: n["p50_ns"] / 1e9}, {Metric: sample.RTTMean, Value: n["mean_ns"] / 1e9}}
	if n["samples"] >= fewestForTail/10 {
		values = append(values, sample.Value{Metric: sample.RTTP99, Value: n["p99_ns"] / 1e9})
	}
	if n["samples"] >= fewestForTail {
		values = append(values, sample.Value{Metric: sample.RTTP999, Value: n["p999_ns"] / 1e9})
	}
	return checked(append(values, sample.Value{Metric: sample.RoundTrips, Value: n["samples"]}))
}
