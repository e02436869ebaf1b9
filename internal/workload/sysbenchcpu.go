package workload

import (
	"regexp"
	"strconv"

	"github.com/tarelab/tare/internal/sample"
)

// sysbenchCPU counts primes: user-mode arithmetic that hardly enters the
// kernel, so a difference between targets is one of scheduling or throttling.
type sysbenchCPU struct{}

func (sysbenchCPU) Kind() string { return "sysbench-cpu" }
func (sysbenchCPU) Help() string {
	return "sysbench cpu: prime numbers by trial division, for a fixed time"
}

func (sysbenchCPU) Params() []Param {
	return []Param{
		wholeSeconds(),
		threads(),
		{Name: "max-prime", Type: Integer, Default: "10000", Help: "each event tests all numbers up to this", Min: 3, Max: 1 << 30},
	}
}

func (sysbenchCPU) Metrics() []sample.Metric {
	return sample.Describe(sample.Events, sample.LatencyMean, sample.LatencyP95, sample.LatencyMax)
}

func (sysbenchCPU) Command(v Values, _ []string) (Command, error) {
	args := append(sysbenchArgs("cpu", v), "--cpu-max-prime="+strconv.FormatInt(v.Int("max-prime"), 10), "run")
	return Command{Args: args, Needs: []string{"sysbench"}, Length: v.Duration("time")}, nil
}

var sysbenchCPUSpeed = regexp.MustCompile(`(?m)^\s+events per second:\s+([0-9.]+)$`)

func (sysbenchCPU) Parse(stdout []byte) ([]sample.Value, error) {
	return parseSysbench(stdout, []quantity{
		{sample.Events, sysbenchCPUSpeed, 1},
		{sample.LatencyP95, sysbenchP95, 1e-3},
		{sample.LatencyMax, sysbenchMax, 1e-3},
	})
}
