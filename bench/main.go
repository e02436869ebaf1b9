// Command bench measures tare's own bars and prints them as a table. Each is a
// ratio or a difference from one interleaved run on this machine; none is a
// timed test. It needs root and what make bench-setup builds.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/tarelab/tare/internal/analysis"
)

// bar is one promise and how to measure it.
type bar struct {
	name    string
	promise string
	measure func(context.Context) (result, error)
}

// result is what a bar's measurement says.
type result struct {
	seen string
	met  analysis.Met
}

func bars() []bar {
	return []bar{
		{"native-floor", "native, all steps: median start at most 1.3 x the same system calls in C", nativeFloor},
		{"native-crun", "native starts at least 5 x faster than crun", limits("bench/native-crun.yaml")},
		{"host-bias", "host: `true` within 100 µs of posix_spawn and wait in C", hostBias},
		{"host-bias-1s", "host: a 1 s command within 0.2 %", hostBiasLong},
		{"laboratory-cpu", "500 runc containers, 32 at once: tare's own CPU at most 5 % of all", laboratoryCPU},
		{"laboratory-memory", "... and its peak memory at most 60 MiB", laboratoryMemory},
		{"runc-starts-1", "32 runc containers one after the other: starts a second at least 98 % of a C loop's", runcStarts(1)},
		{"runc-starts-8", "... 8 at once", runcStarts(8)},
		{"runc-starts-32", "... 32 at once", runcStarts(32)},
		{"native-2000", "2,000 native containers, 100 at once, without a failure: tare's peak memory at most 100 MiB", swarm("native")},
		{"runc-2000", "... with runc", swarm("runc")},
		{"docker-2000", "... with docker", swarm("docker")},
		{"native-hold", "1,000 native containers alive at once: tare's peak memory at most 100 MiB", held("native", 1000)},
		{"runc-hold", "500 with runc", held("runc", 500)},
		{"docker-hold", "500 with docker", held("docker", 500)},
		{"runc-removal", "removing 100 runc containers, all at once, at most twice as long as runc delete", runcRemoval},
		{"docker-cli-starts", "16 containers by docker run, 8 at once: starts a second at least those of xargs", dockerStarts},
		{"containerd-starts", "64 containers by containerd, 8 at once, started and removed a second: at least those of containerd-stress", containerdStarts},
		{"containerd-bucket", "... those of bucketbench", containerdBucket},
		{"network-attach", "500 containers attached to one bridge: at most 3 s", networkAttach},
		{"network-remove", "... and removed: at most 2 s", networkRemove},
		{"network-throughput", "throughput across a bridge: at least 98 % of iperf3 by hand", networkThroughput},
		{"locks-agree", "lock waits of the published churn within 10 % of perf lock contention's", locksAgree},
		{"locks-cost", "... which takes at most 5 % longer while they are recorded", watchingCosts("locks")},
		{"stacks-cost", "... and while its stacks are", watchingCosts("stacks")},
		{"native-pool", "native with pools: more starts a second than without, 32 at once", limits("bench/native-pool.yaml")},
		{"vm-request", machine + ": its program runs at most 20 ms after the request", vmRequest},
		{"vm-share", "... tare's own time between request and payload: at most 5 ms and 3 %", vmShare},
		{"vm-init", "... /init at most 1.3 x as late as with a command line by hand", vmInit},
		{"agent-cost", "... the guest program's own time, by the guest's clock: at most 3 ms", agentCost},
		{"watch", "tare watch of 100 containers at 1 s: at most 1 % of one CPU", watchHundred},
		{"report-time", "report of 1,000,000 records: at most 3 s", reportTime},
		{"report-memory", "... and at most 400 MiB", reportMemory},
		{"check-runtimes", "tare check of host, native and the OCI runtimes: at most 10 s, nothing cached", checkTime(10, "--on", "host,native,runc,crun,youki,runsc")},
		{"check", "... of engines and virtual machines too: at most 60 s", checkTime(60)},
		{"help", "tare --help at most 30 ms", helpTime},
		{"aa-real", "20 real A/A runs: at most 5 % say differs", realAA},
		{"spin", "5 % more work in one arm: differs, at the planned number of blocks", spin},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures the named bars, or all but those of container hosts and those of hours.
func run(ctx context.Context, names []string) error {
	if os.Geteuid() != 0 {
		return errors.New("measuring starts needs root")
	}
	all := bars()
	if len(names) > 0 {
		all = slices.DeleteFunc(slices.Concat(all, trimBars(), longBars()), func(b bar) bool { return !slices.Contains(names, b.name) })
	}
	return measure(ctx, all, os.Stdout)
}

// measure measures bars and writes a table of all of them. One that cannot be
// measured leaves the others theirs. It fails where a bar is not met: one whose
// numbers do not answer is not.
func measure(ctx context.Context, bars []bar, to io.Writer) error {
	t := table.NewWriter()
	t.SetOutputMirror(to)
	t.AppendHeader(table.Row{"bar", "promise", "measured", ""})
	var errs []error
	for _, b := range bars {
		if ctx.Err() != nil {
			errs = append(errs, ctx.Err())
			break
		}
		fmt.Fprintln(os.Stderr, "bench:", b.name)
		r, err := b.measure(ctx)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", b.name, err))
			t.AppendRow(table.Row{b.name, b.promise, "not measured", "error"})
			continue
		case r.met != analysis.LimitMet:
			errs = append(errs, fmt.Errorf("%s: %s", b.name, r.met))
		}
		t.AppendRow(table.Row{b.name, b.promise, r.seen, r.met})
	}
	t.Render()
	return errors.Join(errs...)
}
