// Command bench measures tare's own bars and prints them as a table. Each is a
// ratio or a difference from one interleaved run on this machine; none is a
// timed test. It needs root. The programs that it lacks are built first.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/analysis"
)

// bar is one promise and how to measure it.
type bar struct {
	name    string
	measure func(context.Context) (result, error)
}

// result is what a bar's measurement says.
type result struct {
	seen string
	met  analysis.Met
}

func bars() []bar {
	return []bar{
		{"native-floor", nativeFloor},
		{"native-crun", limits("bench/native-crun.yaml")},
		{"host-bias", hostBias},
		{"host-bias-1s", hostBiasLong},
		{"laboratory-cpu", laboratoryCPU},
		{"laboratory-memory", laboratoryMemory},
		{"runc-starts-1", runcStarts(1)},
		{"runc-starts-8", runcStarts(8)},
		{"runc-starts-32", runcStarts(32)},
		{"native-2000", swarm("native")},
		{"runc-2000", swarm("runc")},
		{"docker-2000", swarm("docker")},
		{"native-hold", held("native", 1000)},
		{"runc-hold", held("runc", 500)},
		{"docker-hold", held("docker", 500)},
		{"runc-removal", runcRemoval},
		{"docker-cli-starts", dockerStarts},
		{"containerd-starts", containerdStarts},
		{"containerd-loop", containerdLoop},
		{"network-attach", networkAttach},
		{"network-remove", networkRemove},
		{"network-throughput", networkThroughput},
		{"locks-agree", locksAgree},
		{"locks-cost", locksCost},
		{"stacks-cost", stacksCost},
		{"native-pool", limits("bench/native-pool.yaml")},
		{"vm-request", vmRequest},
		{"vm-share", vmShare},
		{"vm-init", vmInit},
		{"agent-cost", agentCost},
		{"watch", watchHundred},
		{"report-time", reportTime},
		{"report-memory", reportMemory},
		{"check-runtimes", checkTime(10, "--on", "host,native,runc,crun,youki,runsc")},
		{"check", checkTime(60)},
		{"help", helpTime},
		{"aa-real", realAA},
		{"spin", spin},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	keep := flag.Bool("record", false, "keep the results in bench/recorded.json and docs/bars.md")
	flag.Parse()
	if err := run(ctx, flag.Args(), *keep); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures the named bars, or all but those of container hosts and those of hours.
func run(ctx context.Context, names []string, keep bool) error {
	if os.Geteuid() != 0 {
		return errors.New("measuring starts needs root")
	}
	chosen := bars()
	if len(names) > 0 {
		for _, name := range names {
			if !slices.ContainsFunc(everyBar(), func(b bar) bool { return b.name == name }) {
				return fmt.Errorf("no bar is named %q; docs/bars.md lists them", name)
			}
		}
		chosen = slices.DeleteFunc(everyBar(), func(b bar) bool { return !slices.Contains(names, b.name) })
	}
	if err := makePrograms(ctx); err != nil {
		return err
	}
	promised, err := promises()
	if err != nil {
		return err
	}
	results, failed := measure(ctx, chosen, promised, os.Stdout)
	if keep {
		failed = errors.Join(failed, record(results))
	}
	return failed
}

func everyBar() []bar { return slices.Concat(bars(), trimBars(), longBars()) }

// measure measures bars, writes a table of all of them and returns their results. One
// that cannot be measured leaves the others theirs. It fails where a bar is not met:
// one whose numbers do not answer is not.
func measure(ctx context.Context, bars []bar, promised []promise, to io.Writer) (map[string]result, error) {
	results := map[string]result{}
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
			t.AppendRow(table.Row{b.name, promiseOf(promised, b.name), "not measured", "error"})
			continue
		case r.met != analysis.LimitMet:
			errs = append(errs, fmt.Errorf("%s: %s", b.name, r.met))
		}
		results[b.name] = r
		t.AppendRow(table.Row{b.name, promiseOf(promised, b.name), r.seen, r.met})
	}
	t.Render()
	return results, errors.Join(errs...)
}
