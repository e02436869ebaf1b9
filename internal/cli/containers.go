package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/docker/go-units"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/board"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/probe/containers"
	"github.com/tarelab/tare/internal/report"
)

// seriesFlags are the options of tare watch.
type seriesFlags struct {
	interval, duration time.Duration
	record, json       bool
	listen             string
}

func containersCommand(env *Env) *cobra.Command {
	var f seriesFlags
	c := &cobra.Command{
		Use:   "watch",
		Short: "Show what each container uses, over time",
		Long: `watch finds the containers of this machine, whoever made them (Docker, Podman,
containerd, a bare OCI runtime), and shows their CPU, memory, block and network
rates: on a terminal as a live table, else as one table an interval. It ends after
--for, or with Ctrl-C, and then sums up. With --record the readings are a run,
which tare report shows and plots. It also reports when a container starts, dies or
is out of memory. With --listen it serves OpenMetrics at /metrics, and a page that
updates itself at /, to this machine alone unless another address is given; both
can only be read. It reads cgroup files of version 1,
hybrid or 2 and the counters of each network namespace; it talks to no engine and
changes nothing. Containers inside containers count for the outer one.`,
		Example: `  tare watch
  tare watch --interval 5s --for 10m --record; tare report last -f html -o series.html
  tare watch --json --for 30s | jq .cpu
  tare watch --listen 9815 --interval 5s   # http://127.0.0.1:9815/ and /metrics`,
		Args: exactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error { return env.series(c, &f) },
	}
	flags := c.Flags()
	flags.DurationVar(&f.interval, "interval", time.Second, "between two readings, at least 100ms")
	flags.DurationVar(&f.duration, "for", 0, "how long (default: until Ctrl-C)")
	flags.DurationVar(&f.duration, "duration", 0, "")
	_ = flags.MarkDeprecated("duration", "it is now called --for") // it was defined a line above
	flags.BoolVar(&f.record, "record", false, "keep the readings as a run, for tare report")
	flags.BoolVar(&f.json, "json", false, "print readings and events as JSON, one object a line")
	flags.StringVar(&f.listen, "listen", "", "serve OpenMetrics and a page at this `address`: a port of this machine, or ADDRESS:PORT")
	return c
}

func (env *Env) series(c *cobra.Command, f *seriesFlags) (err error) {
	switch {
	case f.interval < 100*time.Millisecond:
		return usageError{fmt.Errorf("--interval %s: must be at least 100ms", f.interval)}
	case f.duration < 0:
		return usageError{fmt.Errorf("--for %s: must not be negative", f.duration)}
	}
	began, cpu := time.Now(), ownCPU()
	sums := newSeriesSums()
	outputs := []readingOutput{sums.add}
	if f.record {
		file, done, failed := env.recording(c)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, done()) }()
		outputs = append(outputs, func(r watched) error { return writeLines(file, r.points) })
	}
	ctx, serve, err := env.serving(c.Context(), f, began, &outputs)
	if err != nil {
		return err
	}
	switch {
	case f.json:
		outputs = append(outputs, env.writeReading)
	case f.listen == "":
		outputs = append(outputs, env.showReading())
	}
	if err := errors.Join(env.seriesLoop(ctx, f, began, outputs), serve()); err != nil {
		return err
	}
	if !f.json {
		env.printSeriesSums(sums, time.Since(began), ownCPU()-cpu)
	}
	return nil
}

// watched is one reading of a watch.
type watched struct {
	at     time.Duration // since the watch began
	points []containers.Point
	events []containers.Event
}

// readingOutput takes the readings of a watch, one after the other.
type readingOutput func(watched) error

// serving begins to serve the readings where --listen asks for that. The context given
// ends with the server; wait ends the server and says how it ended.
func (env *Env) serving(ctx context.Context, f *seriesFlags, began time.Time, outputs *[]readingOutput) (with context.Context, wait func() error, err error) {
	if f.listen == "" {
		return ctx, func() error { return nil }, nil
	}
	l, err := board.Listen(ctx, f.listen)
	if err != nil {
		return nil, nil, usageError{fmt.Errorf("--listen: %w", err)}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "this machine"
	}
	shown := board.New(board.About{Host: host, CPUs: runtime.NumCPU(), Interval: f.interval, Began: began})
	*outputs = append(*outputs, func(r watched) error { shown.Add(r.at, r.points, r.events); return nil })
	fmt.Fprintf(env.Stderr, "page: http://%s/  OpenMetrics: http://%s/metrics  end with Ctrl-C\n", l.Addr(), l.Addr())
	if !board.Local(l) {
		fmt.Fprintln(env.Stderr, "tare: warning: whoever can reach this address can read the names and the use of all containers; there is no password and no TLS")
	}
	with, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- board.Serve(with, l, shown)
		cancel()
	}()
	return with, func() error { cancel(); return <-ended }, nil
}

// recording makes a run for the readings; done closes it and says where it is.
func (env *Env) recording(c *cobra.Command) (to io.Writer, done func() error, err error) {
	run, err := lab.RecordWatch(env.config(c))
	if err != nil {
		return nil, nil, err
	}
	file, err := run.SeriesWriter(0)
	if err != nil {
		return nil, nil, errors.Join(err, run.Close())
	}
	return file, func() error {
		if err := errors.Join(file.Close(), run.Close()); err != nil {
			return err
		}
		fmt.Fprintf(env.Stderr, "recorded: %s; see it with: tare report last, and plotted with: tare report last -f html -o FILE\n", run.Dir())
		return nil
	}, nil
}

// seriesLoop reads until the time is over or the user ends it: both are its end. The last
// reading is whole: where less than half an interval is left, no other one is made.
func (env *Env) seriesLoop(ctx context.Context, f *seriesFlags, began time.Time, outputs []readingOutput) error {
	watch, err := containers.New()
	if err != nil {
		return err
	}
	defer watch.Close()
	tick := time.NewTicker(f.interval)
	defer tick.Stop()
	for {
		tick.Reset(f.interval) // after a late reading the next one is not early: rates of a moment say nothing
		points, events, err := watch.Read()
		if err != nil {
			return err
		}
		for _, output := range outputs {
			if err := output(watched{time.Since(began), points, events}); err != nil {
				return err
			}
		}
		if lost(env.Stdout) && !f.record && f.listen == "" {
			return nil // the view is all there is
		}
		left := f.duration - time.Since(began)
		last := f.duration > 0 && left < f.interval/2
		if last {
			tick.Reset(max(left, 1))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if last {
				return nil
			}
		}
	}
}

// writeLines writes objects, one a line, at once: a file never ends in half of a reading.
func writeLines[T any](w io.Writer, objects []T) error {
	out := bufio.NewWriterSize(w, 1<<16)
	lines := json.NewEncoder(visible{out})
	for _, o := range objects {
		if err := lines.Encode(o); err != nil {
			return fmt.Errorf("record: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

// writeReading writes a reading as JSON.
func (env *Env) writeReading(r watched) error {
	return errors.Join(writeLines(env.Stdout, r.points), writeLines(env.Stdout, r.events))
}

// eventsShown is how many of the last events stand below the live table.
const eventsShown = 8

// showReading shows readings as tables, each with the events since the one before it; on
// a terminal one table with the last events. The first reading knows no rates.
func (env *Env) showReading() readingOutput {
	first, recent := true, []string(nil)
	return func(r watched) error {
		if env.draws(env.Stdout) {
			recent = recent[max(0, len(recent)-eventsShown):]
		} else {
			recent = nil
		}
		for _, e := range r.events {
			recent = append(recent, eventLine(r.at, e))
		}
		if !first {
			env.showPoints(r.points)
			for _, line := range recent {
				fmt.Fprintln(env.Stdout, line)
			}
		}
		first = false
		return nil
	}
}

func eventLine(at time.Duration, e containers.Event) string {
	what := map[containers.EventKind]string{containers.Started: "started", containers.Died: "died", containers.OutOfMemory: "out of memory"}[e.Event]
	line := fmt.Sprintf("%6s  %s %s (%s)", at.Round(time.Second), report.Clean(e.Name), what, e.Engine)
	if e.Killed > 0 {
		line += fmt.Sprintf(": processes that the kernel killed: %d", e.Killed)
	}
	return line
}

func (env *Env) showPoints(points []containers.Point) {
	if env.draws(env.Stdout) {
		fmt.Fprint(env.Stdout, "\x1b[H\x1b[2J")
	}
	if len(points) == 0 {
		fmt.Fprintln(env.Stdout, "no container is running")
		return
	}
	t := env.table("container", "engine", "CPU %", "memory", "read/s", "written/s", "received/s", "sent/s", "tasks", "load")
	for _, p := range points {
		t.AppendRow(table.Row{p.Name, p.Engine, percent(p.CPU), size(float64(p.Memory)), size(p.Read), size(p.Written), size(p.Received), size(p.Sent), whole(p.Tasks), whole(p.Runnable)})
	}
	t.Render()
	fmt.Fprintln(env.Stdout)
}

// percent, size and whole write a number that may be unknown, which is -1.
func percent(cpus float64) string {
	if cpus < 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100*cpus)
}

func size(bytes float64) string {
	if bytes < 0 {
		return "-"
	}
	return units.BytesSize(bytes)
}

func whole(n int64) string {
	if n < 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// seriesSums are what a watch has seen, by container in the order of appearance.
type seriesSums struct {
	order  []string
	of     map[string]*seriesSum
	events map[containers.EventKind]int64
	more   int // readings of containers beyond mostSums
}

type seriesSum struct {
	name, engine                  string
	readings, known               int // known: with a CPU time
	cpu, cpuPeak                  float64
	memoryPeak                    int64
	read, written, received, sent float64
}

// mean is of the readings that know the CPU time, -1 where none does.
func (s *seriesSum) mean() float64 {
	if s.known == 0 {
		return -1
	}
	return s.cpu / float64(s.known)
}

// mostSums bounds the containers that are summed up one by one: a watch may last for weeks.
const mostSums = 10_000

func newSeriesSums() *seriesSums {
	return &seriesSums{of: map[string]*seriesSum{}, events: map[containers.EventKind]int64{}}
}

func (w *seriesSums) add(r watched) error {
	for _, e := range r.events {
		w.events[e.Event] += max(e.Killed, 1)
	}
	for _, p := range r.points {
		s := w.of[p.ID]
		if s == nil && len(w.order) >= mostSums {
			w.more++
			continue
		}
		if s == nil {
			s = &seriesSum{name: p.Name, engine: p.Engine, cpuPeak: -1, memoryPeak: -1, read: -1, written: -1, received: -1, sent: -1}
			w.of[p.ID] = s
			w.order = append(w.order, p.ID)
		}
		s.readings++
		if p.CPU >= 0 {
			s.cpu += p.CPU
			s.known++
		}
		s.cpuPeak = max(s.cpuPeak, p.CPU)
		s.memoryPeak = max(s.memoryPeak, p.Memory)
		s.read, s.written = max(s.read, p.Read), max(s.written, p.Written)
		s.received, s.sent = max(s.received, p.Received), max(s.sent, p.Sent)
	}
	return nil
}

func (env *Env) printSeriesSums(w *seriesSums, took, cost time.Duration) {
	noun := "containers"
	if len(w.order) == 1 {
		noun = "container"
	}
	fmt.Fprintf(env.Stdout, "%d %s in %s; watching took %.2f %% of a CPU\n", len(w.order), noun, took.Round(time.Second), 100*cost.Seconds()/took.Seconds())
	fmt.Fprintf(env.Stdout, "events: %d start, %d die, %d out of memory\n", w.events[containers.Started], w.events[containers.Died], w.events[containers.OutOfMemory])
	if len(w.order) == 0 {
		return
	}
	t := env.table("container", "engine", "readings", "CPU % mean", "CPU % peak", "memory peak", "read/s peak", "written/s peak", "received/s peak", "sent/s peak")
	for _, id := range w.order {
		s := w.of[id]
		t.AppendRow(table.Row{s.name, s.engine, s.readings, percent(s.mean()), percent(s.cpuPeak), size(float64(s.memoryPeak)), size(s.read), size(s.written), size(s.received), size(s.sent)})
	}
	t.Render()
	if w.more > 0 {
		fmt.Fprintf(env.Stdout, "%d more readings, of containers beyond the first %d\n", w.more, mostSums)
	}
}

// ownCPU is the CPU time that this process has used.
func ownCPU() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0 // only of a process that is not us
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
