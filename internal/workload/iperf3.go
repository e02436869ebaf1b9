package workload

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/tarelab/tare/internal/sample"
)

// iperf3 sends TCP over the target's own loopback: the network stack that the
// layer brings, without a link. Server and client are one payload.
type iperf3 struct{}

func (iperf3) Kind() string { return "iperf3" }
func (iperf3) Help() string {
	return "iperf3: TCP over the target's own loopback, for a fixed time"
}

func (iperf3) Params() []Param {
	return []Param{
		wholeSeconds(),
		{Name: "streams", Type: Integer, Default: "1", Help: "connections at once", Min: 1, Max: 128},
		{Name: "length", Type: Size, Default: "128KiB", Help: "bytes of one write", Min: 1, Max: 1 << 20},
	}
}

func (iperf3) Metrics() []sample.Metric {
	return sample.Describe(sample.Throughput, sample.Retransmits)
}

// iperf3Script starts the server for one test, then the client as soon as the
// server listens: a refused connection is tried again for 5 s. It goes by the
// report, because with -J the client of iperf 3.12 ends with code 0 even where
// it could not connect. Then the server is ended, not waited for: one that takes
// its test for a failed one would wait for the next. Copies that share a network
// take different ports: the PIDs of those that share a PID namespace differ, and the
// kernel numbers the namespaces that live at once one after another. A kernel that
// tells no number of its namespace has a network of its own.
const iperf3Script = `space=$(readlink /proc/self/ns/pid)
space=${space#*[}
space=${space%]}
port=$((10240 + (${space:-0} + $$) % 20000))
iperf3 -s -1 -B 127.0.0.1 -p "$port" >/dev/null 2>&1 &
server=$!
tries=0
while :; do
	report=$(iperf3 -c 127.0.0.1 -p "$port" -J "$@")
	code=$?
	case $report in *'onnection refused'*) ;; *) break ;; esac
	tries=$((tries + 1))
	if [ $tries -ge 500 ]; then break; fi
	usleep 10000
done
kill $server 2>/dev/null
wait $server 2>/dev/null
printf '%s\n' "$report"
exit $code`

func (iperf3) Command(v Values, _ []string) (Command, error) {
	return Command{
		Args: []string{shellPath, "-c", iperf3Script, "iperf3",
			"-t", strconv.FormatInt(int64(v.Duration("time").Seconds()), 10),
			"-P", strconv.FormatInt(v.Int("streams"), 10),
			"-l", strconv.FormatInt(v.Bytes("length"), 10)},
		Env:   []string{shellSearch},
		Needs: []string{"busybox", "iperf3"},
	}, nil
}

// iperf3Report is the part of iperf 3's JSON report that is read.
type iperf3Report struct {
	Error string `json:"error"`
	End   struct {
		Sent *struct {
			Retransmits *int64 `json:"retransmits"`
		} `json:"sum_sent"`
		Received *struct {
			BitsPerSecond float64 `json:"bits_per_second"`
			Bytes         float64 `json:"bytes"`
		} `json:"sum_received"`
	} `json:"end"`
}

func (iperf3) Parse(stdout []byte) ([]sample.Value, error) {
	_, values, err := parseIperf3(stdout)
	return values, err
}

// parseIperf3 reads a client's report.
func parseIperf3(stdout []byte) (report iperf3Report, values []sample.Value, err error) {
	if err := json.Unmarshal(jsonObject(stdout), &report); err != nil {
		return report, nil, fmt.Errorf("iperf3's report is not JSON: %w", err)
	}
	if report.Error != "" {
		return report, nil, fmt.Errorf("iperf3 failed: %s", report.Error)
	}
	if report.End.Received == nil || report.End.Sent == nil {
		return report, nil, fmt.Errorf("iperf3's report has no sums at its end: the test did not finish")
	}
	values = []sample.Value{{Metric: sample.Throughput, Value: report.End.Received.BitsPerSecond}}
	// Only a kernel with TCP_INFO's counters tells retransmits.
	if r := report.End.Sent.Retransmits; r != nil {
		values = append(values, sample.Value{Metric: sample.Retransmits, Value: float64(*r)})
	}
	if values[0].Value <= 0 {
		return report, nil, fmt.Errorf("iperf3 received nothing")
	}
	values, err = checked(values)
	return report, values, err
}
