package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/bundle"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/sys"
)

// startsEach is how many containers a trial of the bars over concurrency starts.
const startsEach = 32

// runcStarts pairs the starts a second of the study with those of a loop in C that
// forks the same detached `runc run` as many at once, and adopts the containers:
// the time of both ends when the last container has ended, and neither removes
// one in it.
func runcStarts(concurrency int) func(context.Context) (result, error) {
	return func(ctx context.Context) (result, error) {
		var rootfs string
		return paired(analysis.AtLeast, 0.98, func() (float64, error) {
			s, err := runcStudy(ctx, startsEach, concurrency)
			if err != nil {
				return 0, err
			}
			rootfs = s.rootfs()
			return s.sample("runc", sample.StartsPerSecond)
		}, func() (float64, error) {
			took, err := bareRunc(ctx, rootfs, startsEach, concurrency)
			return startsEach / took.started, err
		})
	}
}

// runcStudy starts n containers of runc once, as many at once as concurrency says,
// without perf's counters, which the loop has not either.
func runcStudy(ctx context.Context, n, concurrency int) (seen, error) {
	return report(ctx, "run", "concurrent-start", "--on", "runc", "--workloads", "start", "--probes=", "--no-counters", "--no-aa", "--blocks", "1",
		"--instances", strconv.Itoa(n), "--concurrency", strconv.Itoa(concurrency))
}

// bareTimes is what a loop over runc took, in seconds.
type bareTimes struct {
	started, deleted float64 // by the clock: all starts, and all removals by runc
	own              float64 // of CPU time: all but runc and the containers
}

// bareRunc starts n containers by runc in a loop, width at once, and deletes them
// in another. Bundles and runc's state lie in memory, and each container has an overlay
// on the disk and a group of its own, made before the clock, all as tare has them: what
// runc itself pays for those is in both.
func bareRunc(ctx context.Context, rootfs string, n, width int) (took bareTimes, err error) {
	began, err := ownCPU(os.Getpid())
	if err != nil {
		return took, err
	}
	if took, err = bareLoops(ctx, rootfs, n, width); err != nil {
		return took, err
	}
	ended, err := ownCPU(os.Getpid())
	took.own += (ended - began).Seconds()
	return took, err
}

// bareLoops is bareRunc without what it takes around the loops.
func bareLoops(ctx context.Context, rootfs string, n, width int) (took bareTimes, err error) {
	dir, err := os.MkdirTemp("/dev/shm", "tare-bench-")
	if err != nil {
		return took, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	disk, err := os.MkdirTemp(state(), "tare-bench-")
	if err != nil {
		return took, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(disk)) }()
	trees, err := sys.Cgroups()
	if err != nil {
		return took, err
	}
	defer func() { err = errors.Join(err, trees.Remove(bareGroup(dir))) }()
	for i := range n {
		name := strconv.Itoa(i)
		bundle := filepath.Join(dir, name)
		defer func() { err = errors.Join(err, sys.Unmount(filepath.Join(bundle, "rootfs"))) }()
		if err := bareSurroundings(bundle, filepath.Join(disk, name), rootfs, trees, path.Join(bareGroup(dir), name)); err != nil {
			return took, err
		}
	}
	// As many processes of a start as end: runc, and the container.
	started, runs, err := inLoop(ctx, n, width, 2, bareRun(dir, filepath.Join(dir, "{}")))
	if err != nil {
		return took, err
	}
	deleted, deletes, err := inLoop(ctx, n, width, 1, bareDelete(dir))
	return bareTimes{started, deleted, runs + deletes}, err
}

// bareGroup is the cgroup of all containers of a loop in dir.
func bareGroup(dir string) string { return path.Join(driver.Label, filepath.Base(dir)) }

// bareSurroundings makes a container's bundle in dir with an overlay over rootfs, which
// writes in disk, and group, below which runc makes the container's own.
func bareSurroundings(dir, disk, rootfs string, trees sys.Hierarchies, group string) error {
	overlay := sys.Overlay{Lower: rootfs, Upper: filepath.Join(disk, "upper"), Work: filepath.Join(disk, "work")}
	at := bundle.Place{Rootfs: filepath.Join(dir, "rootfs"), Cgroup: path.Join("/", group, "payload")}
	for _, made := range []string{at.Rootfs, overlay.Upper, overlay.Work} {
		if err := os.MkdirAll(made, 0o755); err != nil {
			return err
		}
	}
	if err := trees.Make(group); err != nil {
		return err
	}
	if err := unix.Mount(driver.Label, at.Rootfs, "overlay", 0, overlay.Data(false)); err != nil {
		return fmt.Errorf("mount an overlay at %s: %w", at.Rootfs, err)
	}
	return bareBundle(dir, bundle.Config(driver.Spec{Args: []string{driver.Mark}}, at))
}

// bareRun and bareDelete are the commands of a loop that starts a bundle, or one of
// each number, and that removes its containers, ended or not.
func bareRun(dir, bundle string) []string {
	return append(bareCommand(dir), "run", "--detach", "--pid-file", filepath.Join(dir, "pid-{}"), "--bundle", bundle, bareName(dir))
}

func bareDelete(dir string, flags ...string) []string {
	return append(append(append(bareCommand(dir), "delete"), flags...), bareName(dir))
}

func bareCommand(dir string) []string {
	return []string{"runc", "--root", filepath.Join(dir, "state"), "--log", filepath.Join(dir, "log-{}"), "--log-format", "json"}
}

func bareName(dir string) string { return filepath.Base(dir) + "-{}" }

// inLoop runs a command n times in a loop in C (bench/starts.c), and gives the
// seconds that it took, and those of the loop's own CPU time.
func inLoop(ctx context.Context, n, width, reaped int, argv []string) (took, own float64, err error) {
	seconds, err := nanoseconds(ctx, append([]string{loop, strconv.Itoa(n), strconv.Itoa(width), strconv.Itoa(reaped)}, argv...)...)
	if err != nil {
		return 0, 0, err
	}
	if len(seconds) != 2 {
		return 0, 0, fmt.Errorf("%s printed %d numbers in place of 2: run make bench-setup, it is of another version", loop, len(seconds))
	}
	return seconds[0], seconds[1], nil
}

// swarmSize is how many containers the bars of many start.
const swarmSize, swarmWidth = 2000, 100

// removed is how many containers a pair of the bar over removal has: pairs of 2,000
// would take hours.
const removed = 100

// runcRemoval pairs how long tare takes to remove containers with runc's own
// delete, as many at once.
func runcRemoval(ctx context.Context) (result, error) {
	var rootfs string
	return paired(analysis.AtMost, 2, func() (float64, error) {
		s, err := runcStudy(ctx, removed, swarmWidth)
		if err != nil {
			return 0, err
		}
		rootfs = s.rootfs()
		return s.sample("runc", sample.Removal)
	}, func() (float64, error) {
		took, err := bareRunc(ctx, rootfs, removed, swarmWidth)
		return took.deleted, err
	})
}

// bareBundle writes a bundle's configuration into dir.
func bareBundle(dir string, config *specs.Spec) error {
	data, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600)
}

// swarm is 2,000 containers, 100 at once, measured once for a target. A failed
// container is an error, and so is what is left of them.
func swarm(target string) func(context.Context) (result, error) {
	return func(ctx context.Context) (result, error) {
		u, err := leavingNothing(func() (usage, error) {
			return watch(ctx, tare, "run", "concurrent-start", "--on", target,
				"--workloads", "start", "--probes=", "--no-aa", "--instances", strconv.Itoa(swarmSize), "--concurrency", strconv.Itoa(swarmWidth), "--blocks", "1")
		})
		if err != nil {
			return result{}, err
		}
		return below(float64(u.peak), 100<<20, fmt.Sprintf("%s, all in %.0f s", mebibytes(u.peak), u.wall.Seconds()))
	}
}

// held is n containers of a target that are alive at once: one that fails is an
// error.
func held(target string, n int) func(context.Context) (result, error) {
	return func(ctx context.Context) (result, error) {
		u, err := leavingNothing(func() (usage, error) {
			return watch(ctx, tare, "run", "concurrent-start", "--on", target,
				"--workloads", "hold", "--probes=", "--no-aa", "--instances", strconv.Itoa(n), "--concurrency", strconv.Itoa(swarmWidth), "--blocks", "1")
		})
		if err != nil {
			return result{}, err
		}
		return below(float64(u.peak), 100<<20, fmt.Sprintf("%d alive, %s, all in %.0f s", n, mebibytes(u.peak), u.wall.Seconds()))
	}
}
