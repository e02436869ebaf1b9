package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
)

const (
	tare  = "bin/tare"
	floor = "bin/bench/floor"
	spawn = "bin/bench/spawn"
	loop  = "bin/bench/starts"
)

// state is where tare keeps its images and the runs of the bars.
func state() string {
	if dir := os.Getenv("TARE_STATE"); dir != "" {
		return dir
	}
	return "/var/lib/tare"
}

// seen is the part of tare's JSON report that the bars read.
type seen struct {
	Manifest struct {
		Image   string                  `json:"image"`
		Targets map[string]driver.Facts `json:"targets"`
		Pilot   map[string]struct {
			MinimumDetectable float64 `json:"minimumDetectable"`
		} `json:"pilot"`
	} `json:"manifest"`
	Claims struct {
		Tables []analysis.Table `json:"tables"`
	} `json:"claims"`
	Sections []struct {
		ID   string          `json:"id"`
		Data json.RawMessage `json:"data"`
	} `json:"sections"`
}

// rootfs is the root file system that the run's cells had.
func (s seen) rootfs() string {
	return filepath.Join(state(), "images", strings.TrimPrefix(s.Manifest.Image, "sha256:"), "rootfs")
}

// report runs a verb of tare that measures, and gives its report.
func report(ctx context.Context, verb string, args ...string) (seen, error) {
	return reported(output(ctx, append([]string{tare, verb, "--json"}, args...)))
}

// reported reads a report as JSON, unless there was an error before.
func reported(text []byte, err error) (out seen, _ error) {
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(text, &out)
}

// weigh runs tare weigh with these arguments and gives its report.
func weigh(ctx context.Context, args ...string) (seen, error) { return report(ctx, "weigh", args...) }

// samples are one target's values of one metric, in the first table that has
// them: of tare weigh, the command's before the start's.
func (s seen) samples(target, metric string) ([]float64, error) {
	for _, t := range s.Claims.Tables {
		for _, r := range t.Rows {
			if t.Metric.Name == metric && r.Target == target && !r.AA {
				return r.Samples, nil
			}
		}
	}
	return nil, fmt.Errorf("the report has no %s of %s", metric, target)
}

// sample is the first value of a target's metric, where there is but one block.
func (s seen) sample(target, metric string) (float64, error) {
	all, err := s.samples(target, metric)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("every trial of %s failed", target)
	}
	if err != nil {
		return 0, err
	}
	return all[0], nil
}

// output runs a command and gives its standard output; the error holds the end
// of its standard error.
func output(ctx context.Context, argv []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missing(argv[0])
	}
	if err != nil {
		text := strings.TrimSpace(stderr.String())
		return out, fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, text[max(0, len(text)-500):])
	}
	return out, nil
}

// missing says what makes a program that is not there any more.
func missing(program string) error {
	return fmt.Errorf("%s is missing: run make bench-setup in the repository first", program)
}

// makePrograms builds the programs that the bars measure with, where one is missing, as
// on a fresh checkout.
func makePrograms(ctx context.Context) error {
	var lacking []string
	for _, program := range []string{tare, floor, spawn, loop} {
		if _, err := os.Stat(program); errors.Is(err, fs.ErrNotExist) {
			lacking = append(lacking, program)
		} else if err != nil {
			return err
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	if _, err := os.Stat("bench/bars.yaml"); err != nil {
		return fmt.Errorf("%w: call go run ./bench in the top directory of the repository", err)
	}
	fmt.Fprintf(os.Stderr, "bench: %s missing: make bench-setup\n", strings.Join(lacking, ", "))
	cmd := exec.CommandContext(ctx, "make", "--no-print-directory", "bench-setup")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("make bench-setup: %w", err)
	}
	return nil
}

// nanoseconds runs a C program of bench/ and gives the seconds that it printed
// as nanoseconds, one a line.
func nanoseconds(ctx context.Context, argv ...string) ([]float64, error) {
	out, err := output(ctx, argv)
	if err != nil {
		return nil, err
	}
	var seconds []float64
	for _, line := range strings.Fields(string(out)) {
		ns, err := strconv.ParseFloat(line, 64)
		if err != nil {
			return nil, fmt.Errorf("%s printed %q: %w", argv[0], line, err)
		}
		seconds = append(seconds, ns*1e-9)
	}
	if len(seconds) == 0 {
		return nil, fmt.Errorf("%s printed nothing", argv[0])
	}
	return seconds, nil
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// usage is what one command used.
type usage struct {
	wall time.Duration
	self time.Duration // CPU time of the process itself, threads included
	all  time.Duration // ... and of all that it waited for
	peak int64         // its own peak resident memory in bytes
}

// watch runs a command to its end and tells its own use apart from that of the
// processes that it waited for. The peak is VmHWM, read while it lives, because
// ru_maxrss also holds what the process was before its execve.
func watch(ctx context.Context, argv ...string) (usage, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	began := time.Now()
	if err := cmd.Start(); errors.Is(err, fs.ErrNotExist) {
		return usage{}, missing(argv[0])
	} else if err != nil {
		return usage{}, err
	}
	var u usage
	ended := make(chan error, 1)
	go func() { // WNOWAIT leaves the zombie, whose times can still be read
		ended <- unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	}()
	for done := false; !done; {
		select {
		case err := <-ended:
			if err != nil {
				return u, fmt.Errorf("wait for %s: %w", argv[0], err)
			}
			done = true
		case <-time.After(5 * time.Millisecond):
			u.peak = max(u.peak, peakMemory(cmd.Process.Pid))
		}
	}
	u.wall = time.Since(began)
	var err error
	if u.self, err = ownCPU(cmd.Process.Pid); err != nil {
		return u, err
	}
	if err := cmd.Wait(); err != nil {
		return u, fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(stderr.String()))
	}
	u.all = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return u, nil
}

// peakMemory is VmHWM of /proc/PID/status in bytes; 0 once the process is dead.
func peakMemory(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, found := strings.Cut(string(status), "VmHWM:")
	if !found {
		return 0
	}
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}

// ownCPU is utime and stime of /proc/PID/stat (proc_pid_stat(5), fields 14 and
// 15, in ticks of 10 ms).
func ownCPU(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+2:])) // the name may hold blanks
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}
