package workload

import (
	"strconv"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
)

// netTCP is iperf3 between two ends.
type netTCP struct{ costPerGbit }

func (netTCP) Kind() string { return "net-tcp" }
func (netTCP) Help() string {
	return "iperf3: TCP from a client to a server at the other end of a path, for a fixed time"
}

func (netTCP) Params() []Param { return iperf3{}.Params() }

func (netTCP) Metrics() []sample.Metric {
	return append(iperf3{}.Metrics(), sample.Describe(sample.Moved)...)
}

func (netTCP) Command(v Values, _ []string) (Command, error) {
	return Command{
		Args: []string{"iperf3", "-c", driver.PeerAddress, "-p", driver.PeerPort, "-J",
			"-t", strconv.FormatInt(int64(v.Duration("time").Seconds()), 10),
			"-P", strconv.FormatInt(v.Int("streams"), 10),
			"-l", strconv.FormatInt(v.Bytes("length"), 10)},
		Peer:   []string{iperf3Path, "-s", "-1", "-B", everyAddress, "-p", driver.PeerPort},
		Needs:  []string{"iperf3"},
		Length: v.Duration("time"),
	}, nil
}

// iperf3Path is where the workbench has it, whatever the machine's own place.
const iperf3Path = "/usr/bin/iperf3"

func (netTCP) Parse(stdout []byte) ([]sample.Value, error) {
	report, values, err := parseIperf3(stdout)
	if err != nil {
		return nil, err
	}
	return checked(append(values, sample.Value{Metric: sample.Moved, Value: report.End.Received.Bytes}))
}
