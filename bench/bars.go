package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/sys"
)

// nativeFloor pairs tare's native starts with those of the C floor, which has
// the same root file system and makes its cgroups in the same tree, with the same
// controllers.
func nativeFloor(ctx context.Context) (r result, err error) {
	trees, err := sys.Cgroups()
	if err != nil {
		return result{}, err
	}
	group, v2 := "tare/bench", "-"
	if err := trees.Make(group); err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, trees.Remove(group)) }()
	if one, ok := trees.Unified(); ok {
		v2 = one.Dir(group)
		if err := one.HandDown(group); err != nil {
			return result{}, err
		}
	}
	var rootfs string
	return paired(analysis.AtMost, 1.3, func() (float64, error) {
		s, err := report(ctx, "run", "bench/floor.yaml")
		if err != nil {
			return 0, err
		}
		rootfs = s.rootfs()
		ready, err := s.samples("native", sample.Ready)
		if err != nil {
			return 0, err
		}
		return median(ready), nil
	}, func() (float64, error) {
		c, err := floorStarts(ctx, rootfs, v2)
		if err != nil {
			return 0, err
		}
		return median(c), nil
	})
}

func floorStarts(ctx context.Context, rootfs, v2 string) ([]float64, error) {
	scratch, err := os.MkdirTemp("", "tare-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	return nanoseconds(ctx, floor, "60", rootfs, scratch, v2)
}

// pause is what tare's own work between two short trials takes, in microseconds.
const pause = "20000"

// bias gives the differences of the medians between `tare weigh` on the host
// and a bare loop in C over the same command at the same pace, with their interval,
// and what the loop took.
func bias(ctx context.Context, each int, argv ...string) (difference stats.Estimate, bare float64, err error) {
	var differences, bares []float64
	for n := range pairs {
		wall, c, err := inTurn(n, func() (float64, error) {
			s, err := weigh(ctx, append([]string{"--on", "host", "--no-aa", "--blocks", strconv.Itoa(each), "--"}, argv...)...)
			if err != nil {
				return 0, err
			}
			wall, err := s.samples("host", sample.Wall)
			if err != nil {
				return 0, err
			}
			return median(wall), nil
		}, func() (float64, error) {
			c, err := nanoseconds(ctx, append([]string{spawn, strconv.Itoa(each), pause}, argv...)...)
			if err != nil {
				return 0, err
			}
			return median(c), nil
		})
		if err != nil {
			return difference, 0, err
		}
		differences, bares = append(differences, wall-c), append(bares, c)
	}
	return stats.OverBlocks(differences), median(bares), nil
}

func hostBias(ctx context.Context) (result, error) {
	d, bare, err := bias(ctx, 50, "/bin/true")
	if err != nil {
		return result{}, err
	}
	shown := fmt.Sprintf("%+.0f µs [%+.0f, %+.0f] on %.0f µs, %d pairs", 1e6*d.Value, 1e6*d.Interval.Low, 1e6*d.Interval.High, 1e6*bare, pairs)
	return result{shown, analysis.Limit{Least: -100e-6, Most: 100e-6}.Judge(d.Interval)}, nil
}

func hostBiasLong(ctx context.Context) (result, error) {
	d, bare, err := bias(ctx, 3, "/bin/sleep", "1")
	if err != nil {
		return result{}, err
	}
	share := 100 / bare
	shown := fmt.Sprintf("%+.3f %% [%+.3f, %+.3f] of %.3f s, %d pairs", share*d.Value, share*d.Interval.Low, share*d.Interval.High, bare, pairs)
	return result{shown, analysis.Limit{Least: -0.002 * bare, Most: 0.002 * bare}.Judge(d.Interval)}, nil
}

// stormSize is how many runc containers bench/storm.yaml starts, stormWidth at once; two
// bars are measured by it.
const stormSize, stormWidth = 500, 32

func storm(ctx context.Context) (usage, error) {
	return watch(ctx, tare, "run", "bench/storm.yaml")
}

// laboratoryCPU pairs tare's own CPU time with that of a loop that makes and removes the
// same bundles, overlays and groups.
func laboratoryCPU(ctx context.Context) (result, error) {
	s, err := runcStudy(ctx, 1, 1) // for its root file system
	if err != nil {
		return result{}, err
	}
	return paired(analysis.AtMost, 3.5, func() (float64, error) {
		u, err := storm(ctx)
		return u.self.Seconds(), err
	}, func() (float64, error) {
		took, err := bareRunc(ctx, s.rootfs(), stormSize, stormWidth)
		return took.own, err
	})
}

func laboratoryMemory(ctx context.Context) (result, error) {
	u, err := storm(ctx)
	if err != nil {
		return result{}, err
	}
	return below(float64(u.peak), 60<<20, mebibytes(u.peak))
}

func mebibytes(n int64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }

func reportTime(ctx context.Context) (result, error) {
	u, err := bigReport(ctx)
	if err != nil {
		return result{}, err
	}
	return below(u.wall.Seconds(), 3, fmt.Sprintf("%.2f s", u.wall.Seconds()))
}

func reportMemory(ctx context.Context) (result, error) {
	u, err := bigReport(ctx)
	if err != nil {
		return result{}, err
	}
	return below(float64(u.peak), 400<<20, mebibytes(u.peak))
}

// checkTime proves targets anew, all without args.
func checkTime(limit float64, args ...string) func(context.Context) (result, error) {
	return func(ctx context.Context) (result, error) {
		return repeated(limit, seconds, func() (float64, error) {
			u, err := watch(ctx, append([]string{tare, "check", "--fresh"}, args...)...)
			var exit *exec.ExitError
			if errors.As(err, &exit) && exit.ExitCode() == 4 { // a target that cannot run here took its time, too
				err = nil
			}
			return u.wall.Seconds(), err
		})
	}
}

func seconds(s float64) string { return fmt.Sprintf("%.2f s", s) }

func helpTime(ctx context.Context) (result, error) {
	var walls []float64
	for range pairs {
		u, err := watch(ctx, tare, "--help")
		if err != nil {
			return result{}, err
		}
		walls = append(walls, u.wall.Seconds())
	}
	return below(median(walls), 0.030, fmt.Sprintf("%.0f ms", 1e3*median(walls)))
}

// realAA counts how often a machine that is compared with itself seems to differ,
// of 20 times that it was quiet enough for an answer; it takes up to 40 runs.
func realAA(ctx context.Context) (result, error) {
	const runs, most = 20, 40
	return twins(runs, most, func() (analysis.Verdict, error) {
		s, err := weigh(ctx, "--on", "host", "--blocks", "12", "--", "sh", "-c", "i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done")
		if err != nil {
			return "", err
		}
		for _, t := range s.Claims.Tables {
			for _, r := range t.Rows {
				if t.Primary && t.Workload == "sh" && r.AA && r.Effect != nil {
					return r.Effect.Verdict, nil
				}
			}
		}
		return "", errors.New("the report does not compare the host's sh with its twin")
	})
}

// twins asks for verdicts until so many are not refused, at most most times.
func twins(runs, most int, verdict func() (analysis.Verdict, error)) (result, error) {
	decided, refused, differs := 0, 0, 0
	for decided < runs && decided+refused < most {
		v, err := verdict()
		if err != nil {
			return result{}, err
		}
		switch {
		case v == analysis.NotComparable:
			refused++
			continue
		case v.Shown():
			differs++
		}
		decided++
	}
	shown := fmt.Sprintf("%d of %d differ, %d more refused", differs, decided, refused)
	if decided < runs {
		return result{shown, analysis.LimitOpen}, nil
	}
	return below(float64(differs)/float64(runs), 0.05, shown)
}

// spin lets the arm with a PID namespace of its own work 5 % longer: there the
// shell is process 1. The blocks are as many as the plan promises to suffice, by
// its pilot: a verdict that comes with fewer is not the promised one.
func spin(ctx context.Context) (result, error) {
	const work = "n=300000; [ $$ = 1 ] && n=315000; i=0; while [ $i -lt $n ]; do i=$((i+1)); done"
	blocks := analysis.PlanBlocks(0.05, 1, true)
	for ; blocks <= 96; blocks *= 2 {
		s, err := weigh(ctx, "--on", "host,native", "--blocks", strconv.Itoa(blocks), "--", "/bin/busybox", "sh", "-c", work)
		if err != nil {
			return result{}, err
		}
		e, promised, err := s.spun()
		if err != nil {
			return result{}, err
		}
		if promised == 0 || promised > 0.05 {
			continue
		}
		shown := fmt.Sprintf("%s: ratio %.3f [%.3f, %.3f], %d blocks, for which the plan promised %.1f %%", e.Verdict, e.Ratio, e.Interval.Low, e.Interval.High, blocks, 100*promised)
		switch {
		case e.Verdict.Shown():
			return result{shown, analysis.LimitMet}, nil
		case e.Verdict == analysis.NotComparable:
			return result{shown, analysis.LimitOpen}, nil
		}
		return result{shown, analysis.LimitBroken}, nil
	}
	return result{fmt.Sprintf("no plan of up to %d blocks promises to show 5 %%: the machine is too noisy", blocks/2), analysis.LimitOpen}, nil
}

// spun is the effect of the arm that works longer, and the smallest effect that the
// plan promised to show; 0 for none.
func (s seen) spun() (*analysis.Effect, float64, error) {
	for _, t := range s.Claims.Tables {
		for _, r := range t.Rows {
			if t.Primary && t.Workload == "busybox" && r.Target == "native" && r.Effect != nil {
				return r.Effect, s.Manifest.Pilot[t.Group].MinimumDetectable, nil
			}
		}
	}
	return nil, 0, errors.New("the report compares native's busybox with nothing")
}

// bigReport makes a run of a million records once, and reports it.
func bigReport(ctx context.Context) (usage, error) {
	state, err := os.MkdirTemp("", "tare-bench-")
	if err != nil {
		return usage{}, err
	}
	defer os.RemoveAll(state)
	if err := generate(state, 1_000_000); err != nil {
		return usage{}, err
	}
	u, err := watch(ctx, tare, "--state", state, "report", "last")
	if err == nil && u.wall < time.Millisecond {
		err = fmt.Errorf("a report in %v cannot have read anything", u.wall)
	}
	return u, err
}
