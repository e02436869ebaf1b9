package drivertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// limitable says why limits cannot be checked here.
func limitable() error {
	trees, err := sys.Cgroups()
	if err != nil {
		return err
	}
	if !trees.Usable() {
		return lackf("this user may not make cgroups")
	}
	return nil
}

// checkMemory lets a shell's string grow to 1 GiB under a limit of 128 MiB,
// which leaves room for a sandbox's own memory.
func checkMemory(ctx context.Context, s *suite) error {
	if err := limitable(); err != nil {
		return err
	}
	const hog = `awk 'BEGIN { s = "0123456789abcdef"; for (i = 0; i < 26; i++) s = s s; print length(s) }'`
	j := sh("exec " + hog)
	j.limits = driver.Limits{Memory: 128 << 20}
	o := s.run(ctx, j)
	if o.close != nil {
		return o.close
	}
	if driver.IsLab(o.err) {
		return fmt.Errorf("a payload over its memory limit is not the laboratory's fault: %w", o.err)
	}
	if o.ok() == nil {
		return fmt.Errorf("a payload of 1 GiB ran under a limit of 128 MiB and printed %q", o.stdout)
	}
	j = sh("echo small")
	j.limits = driver.Limits{Memory: 128 << 20}
	if err := s.run(ctx, j).ok(); err != nil {
		return fmt.Errorf("a small payload under a limit of 128 MiB: %w", err)
	}
	return nil
}

func checkPids(ctx context.Context, s *suite) error {
	if err := limitable(); err != nil {
		return err
	}
	j := sh(`i=0; while [ $i -lt 300 ]; do sleep 20 & i=$((i+1)); done; echo all`)
	j.limits = driver.Limits{Pids: 100}
	o := s.run(ctx, j)
	if o.close != nil {
		return o.close
	}
	if strings.Contains(o.stdout, "all") {
		return fmt.Errorf("300 processes ran under a limit of 100")
	}
	if o.err == nil && !o.acted {
		return fmt.Errorf("under a limit of 100 processes, the payload did not even start: %s", exitText(o.exit))
	}
	return o.err
}

// checkCPUs spins for a second under half a CPU and reads the CPU time that the
// instance's cgroup was charged.
func checkCPUs(ctx context.Context, s *suite) error {
	if err := limitable(); err != nil {
		return err
	}
	j := sh("while :; do :; done")
	j.limits = driver.Limits{CPUs: 0.5}
	i, err := s.prepare(ctx, j)
	if err != nil {
		return err
	}
	used, wall, err := i.spin(ctx)
	if err := errors.Join(err, i.close()); err != nil {
		return err
	}
	if share := used.Seconds() / wall.Seconds(); share > 0.7 || share < 0.02 {
		return fmt.Errorf("under half a CPU, the payload used %.2f of one (%v in %v)", share, used, wall)
	}
	return nil
}

// spin starts the payload and measures its CPU time over a second.
func (i *instance) spin(ctx context.Context) (used, wall time.Duration, err error) {
	if err := i.start(ctx); err != nil {
		return 0, 0, err
	}
	if err := i.ready(ctx); err != nil {
		return 0, 0, err
	}
	from, err := cpuTime(i.spec.Cgroup)
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	time.Sleep(time.Second)
	to, err := cpuTime(i.spec.Cgroup)
	return to - from, time.Since(begin), err
}

func checkCPUSet(ctx context.Context, s *suite) error {
	if err := limitable(); err != nil {
		return err
	}
	j := sh("nproc")
	j.limits = driver.Limits{CPUSet: "0"}
	o := s.run(ctx, j)
	if err := o.ok(); err != nil {
		return err
	}
	if strings.TrimSpace(o.stdout) != "1" {
		return fmt.Errorf("in a cpuset of one CPU, nproc printed %q", o.stdout)
	}
	return nil
}
