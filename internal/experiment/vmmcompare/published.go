package vmmcompare

import (
	"fmt"

	"gonum.org/v1/gonum/stat"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/published"
)

// source is published.yaml: it compares two machine monitors on one single-core machine.
type source struct {
	published.Source `yaml:",inline"`
	Host             struct {
		CPUs     int    `yaml:"cpus"`
		Vendor   string `yaml:"vendor"`
		Platform string `yaml:"platform"`
	} `yaml:"host"`
	Method     map[string]string             `yaml:"method"` // measurement -> command
	Boot       both[[][]float64]             `yaml:"boot_s"` // StratoVirt: kernel, userspace, total; QEMU: kernel, initrd, userspace, total
	Footprint  both[[][3]int64]              `yaml:"footprint_kb"`
	CPU        both[[][5]float64]            `yaml:"cpu"`                     // threads, events/s, latency mean, max, p95 in ms
	Memory     both[[][5]float64]            `yaml:"memory_mib_s"`            // block KiB, sequential twice, random twice
	IOLatency  both[map[string][][3]float64] `yaml:"fileio_latency_ms"`       // by mode: mean, max, p95
	Throughput both[map[string][]float64]    `yaml:"fileio_throughput_mib_s"` // by mode
	IOPS       both[operations]              `yaml:"fileio_iops"`
}

// both is something known of both.
type both[T any] struct {
	StratoVirt T `yaml:"stratovirt"`
	QEMU       T `yaml:"qemu"`
}

// operations are operations a second: reads, or writes and fsyncs.
type operations struct {
	RandomRead      []float64    `yaml:"rndrd"`
	RandomWrite     [][2]float64 `yaml:"rndwr"`
	SequentialRead  []float64    `yaml:"seqrd"`
	SequentialWrite [][2]float64 `yaml:"seqwr"`
}

// tableName names a table of the comparison of machine monitors.
type tableName string

// The tables, as published.
const (
	tableCPU        tableName = "cpu"
	tableMemory     tableName = "memory"
	tableLatency    tableName = "file latency, 1 thread, 4 KiB"
	tableThroughput tableName = "file throughput, 32 threads, 128 KiB"
	tableIOPS       tableName = "file operations, 32 threads, 4 KiB"
	tableFootprint  tableName = "footprint"
	// tableDirect was not published: it stands beside tableLatency, whose files lie in
	// the page cache.
	tableDirect tableName = "file latency past the page cache, 1 thread, 4 KiB"
)

// fileModes are the modes of sysbench fileio, in published order.
var fileModes = []string{"rndrd", "rndwr", "seqrd", "seqwr"}

// publishedRow is a published row: a quantity of both monitors, and the workload and
// metric that repeat it.
type publishedRow struct {
	table            tableName
	name, workload   string
	metric           sample.Metric
	stratovirt, qemu float64 // means over the runs, in the metric's unit; 0 where the source cut it to 0
}

// publishedRows are all rows of the publication but its boots.
func publishedRows(d *source) []publishedRow {
	rows := append(cpuRows(d), memoryRows(d)...)
	rows = append(rows, latencyRows(d)...)
	for _, mode := range []string{"rndrd", "rndwr"} {
		for _, metric := range latencies {
			rows = append(rows, publishedRow{table: tableDirect, name: mode, workload: "direct-" + mode, metric: sample.Describe(metric)[0]})
		}
	}
	rows = append(rows, throughputRows(d)...)
	rows = append(rows, iopsRows(d)...)
	return append(rows, footprintRows(d)...)
}

// average is the mean of what f gives of each item.
func average[T any](items []T, f func(T) float64) float64 {
	values := make([]float64, 0, len(items))
	for _, i := range items {
		values = append(values, f(i))
	}
	return stat.Mean(values, nil)
}

// latencies are the quantities of a latency with the column of its published
// milliseconds.
var latencies = []string{sample.LatencyMean, sample.LatencyMax, sample.LatencyP95}

func cpuRows(d *source) []publishedRow {
	var rows []publishedRow
	threads := []float64{}
	for _, r := range d.CPU.QEMU {
		if n := len(threads); n == 0 || threads[n-1] != r[0] {
			threads = append(threads, r[0])
		}
	}
	for _, n := range threads {
		at := func(all [][5]float64, column int) float64 {
			sum, runs := 0., 0
			for _, r := range all {
				if r[0] == n {
					sum, runs = sum+r[column], runs+1
				}
			}
			return sum / float64(max(1, runs))
		}
		workload := fmt.Sprintf("cpu-%.0f", n)
		name := fmt.Sprintf("%.0f threads", n)
		if n == 1 {
			name = "1 thread"
		}
		rows = append(rows, publishedRow{tableCPU, name, workload, sample.Describe(sample.Events)[0], at(d.CPU.StratoVirt, 1), at(d.CPU.QEMU, 1)})
		for i, metric := range latencies {
			rows = append(rows, publishedRow{tableCPU, name, workload, sample.Describe(metric)[0], at(d.CPU.StratoVirt, 2+i) / 1e3, at(d.CPU.QEMU, 2+i) / 1e3})
		}
	}
	return rows
}

func memoryRows(d *source) []publishedRow {
	var rows []publishedRow
	for i, q := range d.Memory.QEMU {
		if i >= len(d.Memory.StratoVirt) {
			break
		}
		s := d.Memory.StratoVirt[i]
		for j, access := range []string{"seq", "rnd"} {
			mean := func(r [5]float64) float64 { return (r[1+2*j] + r[2+2*j]) / 2 * (1 << 20) }
			rows = append(rows, publishedRow{tableMemory, fmt.Sprintf("%.0f KiB, %s", q[0], access), fmt.Sprintf("memory-%.0fk-%s", q[0], access),
				sample.In(sample.Throughput, sample.BytesPerSecond), mean(s), mean(q)})
		}
	}
	return rows
}

func latencyRows(d *source) []publishedRow {
	var rows []publishedRow
	for _, mode := range fileModes {
		for i, metric := range latencies {
			mean := func(all [][3]float64) float64 {
				return average(all, func(r [3]float64) float64 { return r[i] / 1e3 })
			}
			rows = append(rows, publishedRow{tableLatency, mode, "latency-" + mode, sample.Describe(metric)[0], mean(d.IOLatency.StratoVirt[mode]), mean(d.IOLatency.QEMU[mode])})
		}
	}
	return rows
}

func itself(v float64) float64 { return v }

func throughputRows(d *source) []publishedRow {
	var rows []publishedRow
	for _, mode := range fileModes {
		metric := sample.ReadThroughput
		if mode[3:] == "wr" {
			metric = sample.WriteThroughput
		}
		mean := func(all []float64) float64 { return average(all, itself) * (1 << 20) }
		rows = append(rows, publishedRow{tableThroughput, mode, "throughput-" + mode, sample.Describe(metric)[0], mean(d.Throughput.StratoVirt[mode]), mean(d.Throughput.QEMU[mode])})
	}
	return rows
}

func iopsRows(d *source) []publishedRow {
	s, q := d.IOPS.StratoVirt, d.IOPS.QEMU
	row := func(mode, metric string, stratovirt, qemu float64) publishedRow {
		return publishedRow{tableIOPS, mode, "iops-" + mode, sample.Describe(metric)[0], stratovirt, qemu}
	}
	first := func(r [2]float64) float64 { return r[0] }
	second := func(r [2]float64) float64 { return r[1] }
	return []publishedRow{
		row("rndrd", sample.Reads, average(s.RandomRead, itself), average(q.RandomRead, itself)),
		row("rndwr", sample.Writes, average(s.RandomWrite, first), average(q.RandomWrite, first)),
		row("rndwr", sample.Fsyncs, average(s.RandomWrite, second), average(q.RandomWrite, second)),
		row("seqrd", sample.Reads, average(s.SequentialRead, itself), average(q.SequentialRead, itself)),
		row("seqwr", sample.Writes, average(s.SequentialWrite, first), average(q.SequentialWrite, first)),
		row("seqwr", sample.Fsyncs, average(s.SequentialWrite, second), average(q.SequentialWrite, second)),
	}
}

func footprintRows(d *source) []publishedRow {
	var rows []publishedRow
	for i, metric := range []string{sample.Mapped, sample.PayloadRSS, sample.Dirty} {
		mean := func(all [][3]int64) float64 {
			return average(all, func(r [3]int64) float64 { return float64(r[i]) * 1024 })
		}
		rows = append(rows, publishedRow{tableFootprint, metric, footprintWorkload, sample.Describe(metric)[0], mean(d.Footprint.StratoVirt), mean(d.Footprint.QEMU)})
	}
	return rows
}
