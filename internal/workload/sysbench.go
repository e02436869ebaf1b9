package workload

import (
	"fmt"
	"math"
	"regexp"
	"strconv"

	"github.com/tarelab/tare/internal/sample"
)

// sysbenchPath is where the workbench image holds sysbench.
const sysbenchPath = "/usr/bin/sysbench"

// A quantity is one number of sysbench's report: the line that holds it and
// the factor from the printed unit to the base unit.
type quantity struct {
	metric string
	line   *regexp.Regexp // one group: the number
	factor float64
}

// Lines of the report of sysbench 1.0 (src/sb_counter.c, src/sysbench.c), the
// same in every test.
var (
	sysbenchEvents = regexp.MustCompile(`(?m)^\s+total number of events:\s+([0-9]+)$`)
	sysbenchSum    = regexp.MustCompile(`(?m)^\s+sum:\s+([0-9.]+)$`)
	sysbenchP95    = regexp.MustCompile(`(?m)^\s+95th percentile:\s+([0-9.]+)$`)
	sysbenchMax    = regexp.MustCompile(`(?m)^\s+max:\s+([0-9.]+)$`)
)

// find gives the number of the report's only line that matches.
func (q quantity) find(stdout []byte) (sample.Value, error) {
	found := q.line.FindAllSubmatch(stdout, 2)
	if len(found) != 1 {
		return sample.Value{}, fmt.Errorf("%s: %d lines of sysbench's report match %q, not one", q.metric, len(found), q.line)
	}
	n, err := strconv.ParseFloat(string(found[0][1]), 64)
	if err != nil || math.IsInf(n, 0) {
		return sample.Value{}, fmt.Errorf("%s: %q is not a number", q.metric, found[0][1])
	}
	return sample.Value{Metric: q.metric, Value: n * q.factor}, nil
}

func findAll(stdout []byte, quantities []quantity) ([]sample.Value, error) {
	values := make([]sample.Value, 0, len(quantities)+1)
	for _, q := range quantities {
		v, err := q.find(stdout)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

// meanLatency is the sum of all latencies by the number of events. sysbench
// prints a mean too, but cut to 10 us, which is coarser than most events.
func meanLatency(stdout []byte) (sample.Value, error) {
	sum, err := quantity{sample.LatencyMean, sysbenchSum, 1e-3}.find(stdout)
	if err != nil {
		return sum, err
	}
	events, err := quantity{sample.LatencyMean, sysbenchEvents, 1}.find(stdout)
	if err != nil {
		return sum, err
	}
	if events.Value < 1 {
		return sum, fmt.Errorf("latency-mean: sysbench finished no event")
	}
	sum.Value /= events.Value
	return sum, nil
}

// parseSysbench reads the quantities and adds the mean latency.
func parseSysbench(stdout []byte, quantities []quantity) ([]sample.Value, error) {
	values, err := findAll(stdout, quantities)
	if err != nil {
		return nil, err
	}
	mean, err := meanLatency(stdout)
	if err != nil {
		return nil, err
	}
	return checked(append(values, mean))
}

// sysbenchArgs is the part of a command line that all tests share.
func sysbenchArgs(test string, v Values) []string {
	return []string{sysbenchPath, test,
		"--time=" + strconv.FormatInt(int64(v.Duration("time").Seconds()), 10),
		"--threads=" + strconv.FormatInt(v.Int("threads"), 10),
	}
}
