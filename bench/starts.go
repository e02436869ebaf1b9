package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tarelab/tare/internal/analysis"
)

// startsEach is how many containers a trial of the bars over concurrency starts.
const startsEach = 32

// runcStarts pairs the starts a second of the study with those of a shell that
// forks the same `runc run` as many at once: the time of both ends when the last
// container has ended.
func runcStarts(concurrency int) func(context.Context) (result, error) {
	return func(ctx context.Context) (result, error) {
		var ratios []float64
		for range pairs {
			s, err := report(ctx, "run", "concurrent-start", "--on", "runc", "--workloads", "start", "--blocks", "1",
				"--containers", strconv.Itoa(startsEach), "--concurrency", strconv.Itoa(concurrency))
			if err != nil {
				return result{}, err
			}
			rate, err := s.samples("runc", "starts-per-second", false)
			if err != nil {
				return result{}, err
			}
			bare, err := bareRunc(ctx, s.rootfs(), concurrency)
			if err != nil {
				return result{}, err
			}
			ratios = append(ratios, rate[0]/bare)
		}
		return describe(analysis.AtLeast(ratios, 0.98)), nil
	}
}

// bareRunc is the starts a second of a shell loop over runc.
func bareRunc(ctx context.Context, rootfs string, concurrency int) (rate float64, err error) {
	dir, err := os.MkdirTemp("", "tare-bench-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := bareBundle(ctx, dir, rootfs); err != nil {
		return 0, err
	}
	name := filepath.Base(dir)
	loop := fmt.Sprintf(`seq %d | xargs -P %d -I{} runc --root %s/state run --bundle %s %s-{} >%s/out`, startsEach, concurrency, dir, dir, name, dir)
	began := time.Now()
	if _, err := output(ctx, []string{"sh", "-c", loop}); err != nil {
		return 0, err
	}
	took := time.Since(began)
	marks, err := os.Stat(filepath.Join(dir, "out"))
	if err != nil {
		return 0, err
	}
	if want := int64(startsEach * len("\x00tare:acted\x00")); marks.Size() != want {
		return 0, fmt.Errorf("the bare loop's containers printed %d bytes, not the %d of all their marks", marks.Size(), want)
	}
	return startsEach / took.Seconds(), nil
}

// bareBundle is runc's own default bundle, with the mark as its payload in the
// root file system of the study.
func bareBundle(ctx context.Context, dir, rootfs string) error {
	cmd := exec.CommandContext(ctx, "runc", "spec", "--bundle", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("runc spec: %w: %s", err, out)
	}
	file := filepath.Join(dir, "config.json")
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var spec specs.Spec
	if err := json.Unmarshal(data, &spec); err != nil {
		return err
	}
	spec.Process.Terminal, spec.Process.Args = false, []string{"/.tare/mark"}
	spec.Root.Path, spec.Root.Readonly = rootfs, true
	if data, err = json.Marshal(spec); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

// swarm is 2,000 containers, 100 at once, measured once for a target.
func swarm(target string) func(context.Context) (result, error) {
	return func(ctx context.Context) (result, error) {
		u, err := watch(ctx, tare, "run", "concurrent-start", "--on", target,
			"--workloads", "start", "--containers", "2000", "--blocks", "1")
		if err != nil {
			return result{}, err
		}
		return below(float64(u.peak), 100<<20, fmt.Sprintf("%s, all in %.0f s", mebibytes(u.peak), u.wall.Seconds()))
	}
}
