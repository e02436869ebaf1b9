package workload

import (
	"regexp"
	"strconv"

	"github.com/tarelab/tare/internal/sample"
)

// sysbenchMemory writes or reads one buffer over and over: where the block is
// small it shows the cache, where it is large the memory and the page tables.
type sysbenchMemory struct{}

func (sysbenchMemory) Kind() string { return "sysbench-memory" }
func (sysbenchMemory) Help() string {
	return "sysbench memory: writes or reads a buffer over and over, for a fixed time"
}

func (sysbenchMemory) Params() []Param {
	return []Param{
		wholeSeconds(),
		threads(),
		{Name: "block", Type: Size, Default: "1MiB", Help: "size of the buffer", Min: 1 << 10, Max: 1 << 34, Step: 1 << 10},
		{Name: "operation", Type: Choice, Default: "write", Help: "what is done with the buffer", Choices: []string{"write", "read"}},
		{Name: "access", Type: Choice, Default: "seq", Help: "the order of the accesses", Choices: []string{"seq", "rnd"}},
	}
}

func (sysbenchMemory) Metrics() []sample.Metric {
	return append([]sample.Metric{sample.In(sample.Throughput, sample.BytesPerSecond)}, sample.Describe(sample.LatencyMean)...)
}

func (sysbenchMemory) Command(v Values, _ []string) (Command, error) {
	args := append(sysbenchArgs("memory", v),
		"--memory-block-size="+strconv.FormatInt(v.Bytes("block"), 10),
		"--memory-total-size=0", // no end but the time
		"--memory-oper="+v.Text("operation"),
		"--memory-access-mode="+v.Text("access"),
		"run")
	return Command{Args: args, Needs: []string{"sysbench"}, Length: v.Duration("time")}, nil
}

var sysbenchMemorySpeed = regexp.MustCompile(`(?m)^[0-9.]+ MiB transferred \(([0-9.]+) MiB/sec\)$`)

func (sysbenchMemory) Parse(stdout []byte) ([]sample.Value, error) {
	return parseSysbench(stdout, []quantity{{sample.Throughput, sysbenchMemorySpeed, 1 << 20}})
}
