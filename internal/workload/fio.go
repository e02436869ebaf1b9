package workload

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/tarelab/tare/internal/sample"
)

// fio measures file I/O with its own engines, block sizes and depths. Like
// sysbench-fileio it lays its file out first, outside its own clock.
type fio struct{}

func (fio) Kind() string { return "fio" }
func (fio) Help() string {
	return "fio: I/O on one file in the target's own file system, for a fixed time"
}

func (fio) Params() []Param {
	return []Param{
		{Name: "time", Type: Duration, Default: "1s", Help: "how long it runs", Min: int64(100 * time.Millisecond), Max: int64(time.Hour), Step: int64(time.Millisecond)},
		{Name: "rw", Type: Choice, Default: "randread", Help: "pattern of the accesses", Choices: []string{"read", "write", "randread", "randwrite", "rw", "randrw"}},
		{Name: "block", Type: Size, Default: "4KiB", Help: "bytes of one access", Min: 512, Max: 1 << 30, Step: 512},
		{Name: "size", Type: Size, Default: "64MiB", Help: "bytes of the file", Min: 1 << 16, Max: 1 << 40, Step: 512},
		{Name: "jobs", Type: Integer, Default: "1", Help: "jobs at once, each with its own file", Min: 1, Max: 256},
		{Name: "direct", Type: Integer, Default: "0", Help: "1 passes the page cache by, where the file system can", Min: 0, Max: 1},
		{Name: "engine", Type: Choice, Default: "psync", Help: "how the I/O is asked for", Choices: []string{"psync", "sync", "pvsync", "mmap"}},
		{Name: "dir", Type: Path, Default: "/tmp", Help: "where the file is made, inside the target"},
	}
}

func (fio) Metrics() []sample.Metric {
	return sample.Describe(sample.Operations, sample.ReadThroughput, sample.WriteThroughput,
		sample.LatencyMean, sample.LatencyP99, sample.LatencyMax)
}

func (fio) Command(v Values, _ []string) (Command, error) {
	return Command{Disk: v.Text("dir"), Direct: v.Int("direct") == 1, Args: []string{"/usr/bin/fio",
		"--name=tare",
		"--output-format=json",
		"--group_reporting",
		"--time_based",
		"--thread", // processes would need System V shared memory, which not every target has
		"--runtime=" + strconv.FormatInt(v.Duration("time").Milliseconds(), 10) + "ms",
		"--rw=" + v.Text("rw"),
		"--bs=" + strconv.FormatInt(v.Bytes("block"), 10),
		"--size=" + strconv.FormatInt(v.Bytes("size"), 10),
		"--numjobs=" + strconv.FormatInt(v.Int("jobs"), 10),
		"--direct=" + strconv.FormatInt(v.Int("direct"), 10),
		"--ioengine=" + v.Text("engine"),
		"--directory=" + v.Text("dir"),
	}, Needs: []string{"fio"}}, nil
}

// fioReport is the part of fio 3's JSON report that is read.
type fioReport struct {
	Jobs []struct {
		Name  string       `json:"jobname"`
		Error int          `json:"error"`
		Read  fioDirection `json:"read"`
		Write fioDirection `json:"write"`
	} `json:"jobs"`
}

type fioDirection struct {
	Total     int64   `json:"total_ios"`
	Bandwidth float64 `json:"bw_bytes"`
	Rate      float64 `json:"iops"`
	Latency   struct {
		Mean float64 `json:"mean"`
		Max  float64 `json:"max"`
	} `json:"lat_ns"`
	Completion struct {
		Percentile map[string]float64 `json:"percentile"`
	} `json:"clat_ns"`
}

func (fio) Parse(stdout []byte) ([]sample.Value, error) {
	var report fioReport
	if err := json.Unmarshal(jsonObject(stdout), &report); err != nil {
		return nil, fmt.Errorf("fio's report is not JSON: %w", err)
	}
	if len(report.Jobs) != 1 {
		return nil, fmt.Errorf("fio's report has %d jobs, not one", len(report.Jobs))
	}
	job := report.Jobs[0]
	if job.Error != 0 {
		return nil, fmt.Errorf("fio's job %q failed with error %d", job.Name, job.Error)
	}
	total := job.Read.Total + job.Write.Total
	if job.Read.Total < 0 || job.Write.Total < 0 || total <= 0 {
		return nil, fmt.Errorf("fio's job %q finished no access", job.Name)
	}
	p99, err := worstP99(job.Read, job.Write)
	if err != nil {
		return nil, err
	}
	// The mean over both directions, weighted by their numbers of accesses.
	mean := (job.Read.Latency.Mean*float64(job.Read.Total) + job.Write.Latency.Mean*float64(job.Write.Total)) / float64(total)
	return checked([]sample.Value{
		{Metric: sample.Operations, Value: job.Read.Rate + job.Write.Rate},
		{Metric: sample.ReadThroughput, Value: job.Read.Bandwidth},
		{Metric: sample.WriteThroughput, Value: job.Write.Bandwidth},
		{Metric: sample.LatencyMean, Value: mean * 1e-9},
		{Metric: sample.LatencyP99, Value: p99 * 1e-9},
		{Metric: sample.LatencyMax, Value: max(job.Read.Latency.Max, job.Write.Latency.Max) * 1e-9},
	})
}

// worstP99 is the larger 99th percentile of the directions that were used.
func worstP99(directions ...fioDirection) (float64, error) {
	worst := 0.0
	for _, d := range directions {
		if d.Total == 0 {
			continue
		}
		p, ok := d.Completion.Percentile["99.000000"]
		if !ok {
			return 0, fmt.Errorf("fio's report has no 99th percentile of the completion latency")
		}
		worst = max(worst, p)
	}
	return worst, nil
}
