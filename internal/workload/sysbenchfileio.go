package workload

import (
	"regexp"
	"slices"
	"strconv"

	"github.com/tarelab/tare/internal/sample"
)

// sysbenchFileIO reads and writes files in the target's own file system. The
// files are made by the payload too, before sysbench's clock runs: so the
// general metrics (wall, CPU) hold their making, sysbench's own do not.
type sysbenchFileIO struct{}

func (sysbenchFileIO) Kind() string { return "sysbench-fileio" }
func (sysbenchFileIO) Help() string {
	return "sysbench fileio: reads and writes files in the target's own file system, for a fixed time"
}

func (sysbenchFileIO) Params() []Param {
	return []Param{
		wholeSeconds(),
		threads(),
		{Name: "mode", Type: Choice, Default: "rndrw", Help: "pattern of the accesses", Choices: []string{"seqwr", "seqrewr", "seqrd", "rndrd", "rndwr", "rndrw"}},
		{Name: "size", Type: Size, Default: "64MiB", Help: "bytes of all files together", Min: 1 << 20, Max: 1 << 40, Step: 1 << 20},
		{Name: "file-num", Type: Integer, Default: "4", Help: "number of files", Min: 1, Max: 1024},
		{Name: "block", Type: Size, Default: "16KiB", Help: "bytes of one access", Min: 512, Max: 1 << 30, Step: 512},
		{Name: "fsync", Type: Integer, Default: "100", Help: "fsync after this many requests, 0 for never", Min: 0, Max: 1 << 30},
		{Name: "io", Type: Choice, Default: "cached", Help: "whether accesses go through the page cache of the target's kernel, or past it (O_DIRECT, which not every file system has)", Choices: []string{"cached", "direct"}},
		{Name: "dir", Type: Path, Default: "/tmp/tare-fileio", Help: "where the files are made, inside the target"},
	}
}

func (sysbenchFileIO) Metrics() []sample.Metric {
	return sample.Describe(sample.Operations, sample.Reads, sample.Writes, sample.Fsyncs, sample.ReadThroughput, sample.WriteThroughput,
		sample.LatencyMean, sample.LatencyP95, sample.LatencyMax)
}

// fileIOScript makes the files and measures. The directory comes as $1 and the
// options follow, so that nothing is ever quoted.
const fileIOScript = `d=$1; shift
mkdir -p "$d" && cd "$d" || exit 1
sysbench fileio "$@" prepare >&2 || exit 1
exec sysbench fileio "$@" run`

func (sysbenchFileIO) Command(v Values, _ []string) (Command, error) {
	args := []string{shellPath, "-c", fileIOScript, "sysbench-fileio", v.Text("dir")}
	args = append(args, sysbenchArgs("fileio", v)[2:]...)
	args = append(args,
		"--file-test-mode="+v.Text("mode"),
		"--file-total-size="+strconv.FormatInt(v.Bytes("size"), 10),
		"--file-num="+strconv.FormatInt(v.Int("file-num"), 10),
		"--file-block-size="+strconv.FormatInt(v.Bytes("block"), 10),
		"--file-fsync-freq="+strconv.FormatInt(v.Int("fsync"), 10))
	direct := v.Text("io") == "direct"
	if direct {
		args = append(args, "--file-extra-flags=direct")
	}
	return Command{Args: args, Disk: v.Text("dir"), Direct: direct, Env: []string{shellSearch}, Needs: []string{"busybox", "sysbench"}, Length: v.Duration("time")}, nil
}

var (
	fileIOReads   = regexp.MustCompile(`(?m)^\s+reads/s:\s+([0-9.]+)$`)
	fileIOWrites  = regexp.MustCompile(`(?m)^\s+writes/s:\s+([0-9.]+)$`)
	fileIOFsyncs  = regexp.MustCompile(`(?m)^\s+fsyncs/s:\s+([0-9.]+)$`)
	fileIORead    = regexp.MustCompile(`(?m)^\s+read, MiB/s:\s+([0-9.]+)$`)
	fileIOWritten = regexp.MustCompile(`(?m)^\s+written, MiB/s:\s+([0-9.]+)$`)
)

func (sysbenchFileIO) Parse(stdout []byte) ([]sample.Value, error) {
	rates, err := findAll(stdout, []quantity{{sample.Reads, fileIOReads, 1}, {sample.Writes, fileIOWrites, 1}, {sample.Fsyncs, fileIOFsyncs, 1}})
	if err != nil {
		return nil, err
	}
	total := sample.Value{Metric: sample.Operations}
	for _, r := range rates {
		total.Value += r.Value
	}
	values, err := parseSysbench(stdout, []quantity{
		{sample.ReadThroughput, fileIORead, 1 << 20},
		{sample.WriteThroughput, fileIOWritten, 1 << 20},
		{sample.LatencyP95, sysbenchP95, 1e-3},
		{sample.LatencyMax, sysbenchMax, 1e-3},
	})
	if err != nil {
		return nil, err
	}
	return checked(slices.Concat([]sample.Value{total}, rates, values))
}
