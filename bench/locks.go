package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/probe/ebpf"
	"github.com/tarelab/tare/internal/profile"
)

// churn is the published load: 50 tasks, 100 cgroups each, which each task joins itself.
func churn() []string {
	return []string{"helpers/bin/linux_" + runtime.GOARCH + "/churn", "50", "100", "cgroup", "v2", "self", "none"}
}

// locksAgree pairs the time that churn's tasks wait for locks, as tare's probe
// sums it up, with what perf lock contention makes of its own records of the same
// load, in turn. One run takes longer than another, and its tasks wait the longer:
// waits are those of a second of it. While perf records, tare's probe does too: what
// both make of the very same waits is shown beside, with its interval.
func locksAgree(ctx context.Context) (result, error) {
	dir, err := os.MkdirTemp("", "tare-bench-")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "perf.data")
	var ratios, same []float64
	for range pairs {
		alone, err := locksDuring(ctx, churn())
		if err != nil {
			return result{}, err
		}
		beside, err := locksDuring(ctx, append([]string{"perf", "lock", "record", "-o", file, "--"}, churn()...))
		if err != nil {
			return result{}, err
		}
		theirs, err := locksOfPerf(ctx, file)
		if err != nil {
			return result{}, err
		}
		ratios = append(ratios, alone.each()/(theirs.Seconds()/beside.elapsed))
		same = append(same, beside.waits/theirs.Seconds())
		fmt.Fprintf(os.Stderr, "bench: tare %.1f s in %.2f s, perf %.1f s in %.2f s, tare beside perf %.1f s\n", alone.waits, alone.elapsed, theirs.Seconds(), beside.elapsed, beside.waits)
	}
	r, of := describe(within(ratios)), describe(within(same))
	r.seen += "; of the very same waits " + of.seen
	if of.met != analysis.LimitMet {
		r.met = of.met
	}
	return r, nil
}

// within is the bar of a ratio that may differ from 1 by a tenth.
func within(ratios []float64) analysis.Bar {
	bar := analysis.AtLeast(ratios, 0.9, 1)
	if bar.Met == analysis.LimitMet {
		bar = analysis.AtMost(ratios, 1.1, 1)
	}
	return bar
}

// waited is what churn's tasks waited for locks, and how long it took, in seconds.
type waited struct{ waits, elapsed float64 }

// each is the wait in a second of the run.
func (w waited) each() float64 { return w.waits / w.elapsed }

// locksDuring is what a run of churn and what it starts wait for locks.
func locksDuring(ctx context.Context, argv []string) (w waited, err error) {
	p, elapsed, err := recordedBy(ctx, ebpf.RecordLocks, argv)
	w.elapsed = elapsed
	for _, one := range p.Waits {
		if !one.Kernel && one.Kind != profile.Sleep {
			w.waits += one.Total.Seconds()
		}
	}
	return w, err
}

// recordedBy gives what a recorder saw of a run of churn and of what started it, and
// how many seconds churn took.
func recordedBy(ctx context.Context, record ebpf.Recorder, argv []string) (p profile.Profile, elapsed float64, err error) {
	own, err := ebpf.SelectProcess(os.Getpid())
	if err != nil {
		return p, 0, err
	}
	stop, err := record(own)
	if err != nil {
		return p, 0, err
	}
	elapsed, err = elapsedOf(ctx, argv)
	p, stopped := stop()
	return p, elapsed, errors.Join(err, stopped)
}

// elapsedOf is how many seconds churn says that it took.
func elapsedOf(ctx context.Context, argv []string) (elapsed float64, err error) {
	out, err := output(ctx, argv)
	if err != nil {
		return 0, err
	}
	if _, err := fmt.Sscanf(string(out), "elapsed %f", &elapsed); err != nil {
		return 0, fmt.Errorf("%q does not begin with churn's elapsed time: %w", out, err)
	}
	return elapsed, nil
}

// stacksCost pairs churn while tare records its stacks with churn while perf records
// the same, as many samples and the stack of each switch, and sums up nothing.
func stacksCost(ctx context.Context) (result, error) {
	dir, err := os.MkdirTemp("", "tare-bench-")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	perf := []string{"perf", "record", "--quiet", "--event", "cpu-clock/freq=499/", "--event", "sched:sched_switch", "--call-graph", "fp", "--output", filepath.Join(dir, "perf.data"), "--"}
	return paired(analysis.AtMost, 1.1, func() (float64, error) {
		_, elapsed, err := recordedBy(ctx, ebpf.RecordStacks, churn())
		return elapsed, err
	}, func() (float64, error) { return elapsedOf(ctx, append(perf, churn()...)) })
}

// locksOfPerf sums up perf's table of a record, which holds nothing but the
// command and what it starts.
func locksOfPerf(ctx context.Context, file string) (total time.Duration, err error) {
	table, err := exec.CommandContext(ctx, "perf", "lock", "contention", "-i", file).CombinedOutput() // the table is among its errors
	if err != nil {
		return 0, fmt.Errorf("perf lock contention: %w: %s", err, table)
	}
	for lines := bufio.NewScanner(bytes.NewReader(table)); lines.Scan(); {
		fields := strings.Fields(lines.Text()) // contended, total, its unit, ...
		if len(fields) < 9 {
			continue
		}
		if _, err := strconv.Atoi(fields[0]); err != nil {
			continue // the head
		}
		wait, err := time.ParseDuration(fields[1] + fields[2])
		if err != nil {
			return 0, fmt.Errorf("perf lock contention: %q: %w", lines.Text(), err)
		}
		total += wait
	}
	if total == 0 {
		return 0, fmt.Errorf("perf lock contention has no waits:\n%s", table)
	}
	return total, nil
}

// locksCost is how much longer the published churn takes while its locks are recorded.
func locksCost(ctx context.Context) (result, error) {
	args := append([]string{"--on", "native/rootfs", "--blocks", strconv.Itoa(pairs), "--"}, churn()...)
	s, err := report(ctx, "locks", args...)
	if err != nil {
		return result{}, err
	}
	cells, err := s.watchedCells()
	if err != nil {
		return result{}, err
	}
	for _, w := range cells {
		if e := w.Overhead; e != nil {
			return result{fmt.Sprintf("%.3f [%.3f, %.3f] over %d pairs", e.Ratio, e.Interval.Low, e.Interval.High, e.Blocks), analysis.Limit{Least: 0, Most: 1.05}.Judge(e.Interval)}, nil
		}
	}
	return result{}, errors.New("the report does not say what watching cost")
}

// watchedCell is what the bars read of a cell that a probe watched.
type watchedCell struct {
	Overhead *analysis.Effect `json:"overhead"`
}

// watchedCells are those that a probe watched.
func (s seen) watchedCells() (all []watchedCell, err error) {
	for _, section := range s.Sections {
		if section.ID == "waits" {
			var cells []watchedCell
			if err := json.Unmarshal(section.Data, &cells); err != nil {
				return nil, fmt.Errorf("the report's section %s: %w", section.ID, err)
			}
			all = append(all, cells...)
		}
	}
	return all, nil
}
