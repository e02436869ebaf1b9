package board

import (
	"io"
	"maps"

	"github.com/tarelab/tare/internal/probe/containers"
	"github.com/tarelab/tare/internal/report"
)

// openMetrics writes the last reading. What the machine does not account is left out.
func (b *Board) openMetrics(w io.Writer) error {
	b.mu.Lock()
	points, counted := b.latest, maps.Clone(b.counted)
	b.mu.Unlock()
	var f report.Families
	f.Gauge("tare_containers", "containers that run", float64(len(points)))
	for _, kind := range []containers.EventKind{containers.Started, containers.Died, containers.OutOfMemory} {
		f.Counter("tare_container_events_total", "containers that started (start) and died (die) since the watch began, and processes of containers that were killed for want of memory (oom)", float64(counted[kind]), "event", string(kind))
	}
	for _, p := range points {
		addPoint(&f, p)
	}
	return f.Write(w)
}

func addPoint(f *report.Families, p containers.Point) {
	labels := []string{"id", p.ID, "name", p.Name, "engine", p.Engine}
	count := func(name, help string, value float64) {
		if value >= 0 {
			f.Counter(name, help, value, labels...)
		}
	}
	gauge := func(name, help string, value int64) {
		if value >= 0 {
			f.Gauge(name, help, float64(value), labels...)
		}
	}
	u := p.Total
	count("tare_container_cpu_seconds_total", "CPU time that the container has used", u.CPU.Seconds())
	gauge("tare_container_memory_bytes", "memory that the container holds, without the page cache that can go at once", u.Memory)
	count("tare_container_block_read_bytes_total", "bytes read from block devices", float64(u.Read))
	count("tare_container_block_written_bytes_total", "bytes written to block devices", float64(u.Written))
	count("tare_container_network_received_bytes_total", "bytes received by the container's network devices but loopback", float64(u.Received))
	count("tare_container_network_sent_bytes_total", "bytes sent by the container's network devices but loopback", float64(u.Sent))
	gauge("tare_container_tasks", "processes and threads", u.Tasks)
	gauge("tare_container_runnable_processes", "processes that run, or wait for a CPU or a disk", u.Runnable)
	count("tare_container_oom_kills_total", "processes that the kernel killed because the container was out of memory", float64(u.Killed))
}
