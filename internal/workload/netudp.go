package workload

import (
	"fmt"
	"strconv"

	"github.com/tarelab/tare/internal/sample"
)

// netUDP sends datagrams as fast as one process can, and counts those that
// arrive.
type netUDP struct{}

func (netUDP) Kind() string { return "net-udp" }
func (netUDP) Help() string {
	return "datagrams from a client to a server at the other end of a path, as fast as one process sends"
}

func (netUDP) Params() []Param {
	return []Param{duration(), {Name: "bytes", Type: Size, Default: "64", Help: "bytes of one datagram", Min: 1, Max: 65507}}
}

func (netUDP) Metrics() []sample.Metric {
	return sample.Describe(sample.Packets, sample.Lost)
}

func (netUDP) Command(v Values, _ []string) (Command, error) {
	return served(v.Duration("time"), peerAddress, "packets", peerAddress,
		strconv.FormatInt(v.Bytes("bytes"), 10), milliseconds(v.Duration("time"))), nil
}

func (netUDP) Parse(stdout []byte) ([]sample.Value, error) {
	n, err := keyed(stdout, "sent", "received", "elapsed_ns")
	if err != nil {
		return nil, err
	}
	if n["received"] == 0 || n["received"] > n["sent"] {
		return nil, fmt.Errorf("%v of %v datagrams arrived", n["received"], n["sent"])
	}
	perSecond, err := rate(n["received"], n["elapsed_ns"])
	if err != nil {
		return nil, err
	}
	return checked([]sample.Value{{Metric: sample.Packets, Value: perSecond}, {Metric: sample.Lost, Value: 1 - n["received"]/n["sent"]}})
}
